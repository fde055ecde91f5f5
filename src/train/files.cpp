#include "train/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fingerprint.h"
#include "train/checkpoint.h"
#include "train/run_picture.h"
#include "train/weights.h"

namespace nanofsdp::train {
namespace {

namespace fs = std::filesystem;

// Whether two names lead to one file, through links and dots, whether or not it exists.
bool same(const std::string& a, const std::string& b) {
  const auto place = [](const fs::path& path) {
    std::error_code ignored;
    return fs::weakly_canonical(fs::absolute(path), ignored);
  };
  return !a.empty() && !b.empty() && place(a) == place(b);
}

// Why a file cannot be written, in directories that can be made, or must not be; or nothing.
std::string obstacle(const fs::path& path, bool json) {
  std::error_code ignored;
  const fs::path whole = fs::absolute(path);
  fs::path there = whole;
  for (; !fs::exists(there, ignored); there = there.parent_path()) {
    if (there.filename().native().size() > NAME_MAX) return std::strerror(ENAMETOOLONG);
  }
  if (fs::is_directory(there) != (there != whole)) return there == whole ? "a directory" : "a file";
  const int wanted = there == whole ? W_OK : W_OK | X_OK;
  if (::access(there.c_str(), wanted) != 0) return std::strerror(errno);
  const int first = json && fs::is_regular_file(there) ? std::ifstream(there).peek() : EOF;
  return first == EOF || first == '{' ? "" : "a file of something else, which would be lost";
}

// Of a regular file; anything else throws the fault.
std::uint64_t size_of_file(const std::string& path, Fault& fault) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const std::uint64_t size = fs::is_regular_file(status) ? fs::file_size(path, error) : 0;
  if (fs::is_regular_file(status) && !error) return size;
  fault.got = status.type() == fs::file_type::not_found ? "no such file"
              : error                                   ? error.message()
              : fs::is_directory(status)                ? "a directory"
                                                        : "a device or a pipe";
  throw UsageError(fault);
}

}  // namespace

std::string read_file(const std::string& path, Fault fault, std::uint64_t most) {
  const std::uint64_t size = size_of_file(path, fault);
  if (size <= most) {
    std::string text(size, '\0');
    if (std::ifstream(path, std::ios::binary).read(text.data(), std::ssize(text))) return text;
  }
  fault.got =
      size > most ? fmt::format("{} bytes, more than {}", size, most) : std::strerror(errno);
  throw UsageError(fault);
}

std::string read_text(const std::string& path, Fault fault, std::uint64_t most) {
  std::string text = read_file(path, std::move(fault), most);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    text[kept++] = text[i] == '\r' ? '\n' : text[i];
  }
  text.resize(kept);
  return text;
}

MappedFile::MappedFile(const std::string& path, Fault fault) {
  size_ = size_of_file(path, fault);
  if (size_ == 0) return;  // nothing to map
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);  // -1 is no file to it
  fault.got = std::strerror(errno);
  if (file >= 0) ::close(file);
  if (memory == MAP_FAILED) throw UsageError(fault);
  memory_ = {memory, [size = size_](void* begin) { ::munmap(begin, size); }};
}

std::uint64_t fingerprint_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(1 << 20);
  std::uint64_t hash = fingerprint(std::string_view());
  while (file.read(block.data(), std::ssize(block)), file.gcount() > 0) {
    const auto count = static_cast<std::size_t>(file.gcount());
    hash = fingerprint(std::as_bytes(std::span(block).first(count)), hash);
  }
  if (file.eof()) return hash;
  throw UsageError({.what = "cannot read '" + path + "'", .got = std::strerror(errno)});
}

void require_outputs(const TrainOptions& o) {
  const auto in_out_dir = [&](const std::filesystem::path& path) {
    return o.out_dir.empty() ? "" : path.string();
  };
  const std::pair<std::string, std::string> files[] = {
      {"--text", o.text},
      {"--reference", o.reference},
      {"--out_dir", in_out_dir(weights_path(o.out_dir))},
      {"--out_dir", in_out_dir(run_picture_path(o.out_dir))},
      {"--metrics", o.metrics},
      {"--trace", o.trace}};
  for (const auto& [option, path] : std::span(files).subspan(2)) {
    if (path.empty() || (option == "--out_dir" && !o.saves())) continue;
    const bool json = option != "--out_dir";
    std::string got = obstacle(path, json), parent = fs::absolute(path).parent_path().string();
    if (json && got.empty() && !fs::is_directory(parent) && !same(parent, o.out_dir))
      got = "no such directory";
    for (const auto& [other, file] : files) {
      if (other == option) break;
      if (same(path, file)) got = "that of " + other;
    }
    if (got.empty()) continue;
    got = fmt::format("'{}' ({})", path, got);
    throw UsageError({.what = option, .expected = "a file that can be written", .got = got});
  }
  const std::string got = o.saves() ? obstacle_to_checkpoints(o.out_dir) : "";
  if (got.empty()) return;
  throw UsageError({.what = "--out_dir", .expected = "room for checkpoints", .got = got});
}

void flush_stdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw UsageError({.what = "cannot write to standard output", .got = std::strerror(errno)});
}

}  // namespace nanofsdp::train
