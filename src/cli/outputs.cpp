#include "cli/outputs.h"

#include <fmt/format.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <tuple>

#include <unistd.h>

#include "base/check.h"
#include "cli/run_picture.h"
#include "cli/trace_file.h"
#include "store/weights.h"

namespace nanofsdp::cli {
namespace {

namespace fs = std::filesystem;

// Whether two names lead to the same file, through links and dots. The file need not exist.
bool same(const std::string& a, const std::string& b) {
  std::error_code none;
  const auto place = [&](const fs::path& p) { return fs::weakly_canonical(fs::absolute(p), none); };
  return !a.empty() && !b.empty() && place(a) == place(b);
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
  if (!begin.empty() && !fs::is_directory(parent) && !same(parent, made))
    return "no such directory";
  if (begin.empty() || !fs::is_regular_file(there)) return "";
  std::string found(begin.size(), '\0');
  const bool some = std::ifstream(there).read(found.data(), std::ssize(found)).gcount() > 0;
  return !some || found == begin ? "" : "a file of something else, which would be lost";
}

}  // namespace

void require_outputs(const TrainOptions& o) {
  const auto in_out_dir = [&](const fs::path& p) { return o.out_dir.empty() ? "" : p.string(); };
  const std::tuple<std::string, std::string, std::string> files[] = {
      {"--text", o.text, ""},
      {"--reference", o.reference, ""},
      {"--out_dir", in_out_dir(store::weights_path(o.out_dir)), ""},
      {"--out_dir", in_out_dir(run_picture_path(o.out_dir)), ""},
      {"--metrics", o.metrics, R"({"iter")"},
      {"--trace", o.trace, kTraceBegins}};
  for (const auto& [option, path, begin] : std::span(files).subspan(2)) {
    if (path.empty() || (option == "--out_dir" && !o.saves())) continue;
    std::string got;
    for (const auto& [other, file, _] : files) {
      if (other == option) break;
      if (same(path, file)) got = "that of " + other;
    }
    require_output(option, path, begin, o.out_dir, got);
  }
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
                     .got = "'" + path + "'");
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
