#include "cli/outputs.h"

#include <fmt/format.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <system_error>

#include <unistd.h>

#include "base/check.h"
#include "cli/run_picture.h"
#include "cli/trace_file.h"
#include "store/weights.h"

namespace nanofsdp::cli {
namespace {

namespace fs = std::filesystem;

// The file to which a name leads, through links and dots. It need not exist. An empty name leads to
// none.
fs::path place(const fs::path& name) {
  std::error_code none;
  return fs::weakly_canonical(fs::absolute(name, none), none);
}

// The reason why a file cannot be written, or must not be; empty if it can. Directories that are
// missing can be made. If `begin` is not empty, only a file that begins so, or is empty, may be
// replaced, and of its directories only `made` may be missing.
std::string obstacle(const fs::path& path, const std::string& begin, const std::string& made) {
  std::error_code ignored;
  fs::path whole = fs::absolute(path), there = whole;
  for (; !fs::exists(there, ignored); there = there.parent_path())
    if (there.filename().native().size() > NAME_MAX) return std::strerror(ENAMETOOLONG);
  if (fs::is_directory(there) != (there != whole)) return there == whole ? "a directory" : "a file";
  const int wanted = there == whole ? W_OK : W_OK | X_OK;
  if (::access(there.c_str(), wanted) != 0) return std::strerror(errno);
  const std::string parent = whole.parent_path().string();
  if (!begin.empty() && !fs::is_directory(parent) && place(parent) != place(made))
    return "no such directory";
  for (const char* stream : {"/dev/stdout", "/dev/stderr"})
    if (fs::is_regular_file(there) && fs::equivalent(there, stream, ignored))
      return "where this command prints";
  if (begin.empty() || !fs::is_regular_file(there)) return "";
  std::string found(begin.size(), '\0');
  const bool some = std::ifstream(there).read(found.data(), std::ssize(found)).gcount() > 0;
  return !some || found == begin ? "" : "a file of something else, which would be lost";
}

}  // namespace

void require_outputs(const TrainOptions& o) {
  std::signal(SIGPIPE, SIG_IGN);  // if the reader of a pipe ends, write() says so
  // A run moves and removes what has these names in its directory.
  static const std::regex ours(
      R"(checkpoint(\.new|\.previous)?(/.*)?|(model\.safetensors|run\.svg)(\.tmp)?|run\.lock)");
  std::map<fs::path, std::string> taken = {{place(o.text), "--text"},
                                           {place(o.reference), "--reference"}};
  const auto take = [&](const char* option, const fs::path& path, const std::string& begin) {
    if (path.empty()) return;
    const auto [at, is_free] = taken.try_emplace(place(path), option);
    const std::string inside = at->first.lexically_relative(place(o.out_dir)).string();
    const bool kept = !begin.empty() && std::regex_match(inside, ours);
    require_output(option, path.string(), begin, o.out_dir,
                   kept      ? "that of --out_dir"
                   : is_free ? ""
                             : "that of " + at->second);
  };
  if (o.saves()) take("--out_dir", store::weights_path(o.out_dir), "");
  if (o.saves()) take("--out_dir", run_picture_path(o.out_dir), "");
  take("--metrics", o.metrics, R"({"iter")");
  take("--trace", o.trace, kTraceBegins);
}

void require_output(const std::string& option, const std::string& path, const std::string& begin,
                    const std::string& made, std::string got) {
  if (got.empty()) got = obstacle(path, begin, made);
  NANOFSDP_REFUSE_IF(!got.empty(), .what = option, .expected = "a file that can be written",
                     .got = fmt::format("'{}' ({})", path, got));
}

void write_text(const std::string& option, const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  NANOFSDP_REFUSE_IF(!file, .what = option, .expected = "a file that can be written",
                     .got = fmt::format("'{}' ({})", path, std::strerror(errno)));
}

void print_alone(comm::Communicator& world, const std::string& text) {
  const auto busy = world.busy("waits to print");
  fmt::print("{}", text);
  flush_stdout();
}

void flush_stdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  // A reader that has ended, as `head` does, is no error: SIGPIPE ends the process. Ranks that use
  // Gloo have ignored it until here.
  if (errno == EPIPE) std::signal(SIGPIPE, SIG_DFL), std::raise(SIGPIPE);
  NANOFSDP_REFUSE(.what = "cannot write to standard output", .got = std::strerror(errno));
}

}  // namespace nanofsdp::cli
