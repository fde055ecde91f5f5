#include "base/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fingerprint.h"

namespace nanofsdp {
namespace {

namespace fs = std::filesystem;

// The size of a regular file. Throws the fault for anything else.
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
  std::uint64_t size = size_of_file(path, fault);
  if (size <= most) {
    std::ifstream file(path, std::ios::binary);
    std::string text(size, '\0');
    const bool has_read(file.read(text.data(), std::ssize(text)));
    // The system gives 0 as the size of a file that it writes while it is read, as in /proc.
    for (char c; size == 0 && text.size() <= most && file.get(c);) text += c;
    size = text.size();
    if (has_read && size <= most) return text;
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
  if (size_ == 0) return;  // an empty file cannot be mapped
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) size_ = ::lseek(file, 0, SEEK_END);  // the path may lead to another file by now
  void* memory = file < 0 ? MAP_FAILED : ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
  fault.got = std::strerror(errno);
  if (file >= 0) ::close(file);
  if (memory == MAP_FAILED) throw UsageError(fault);
  memory_ = {memory, [size = size_](void* begin) { ::munmap(begin, size); }};
}

std::uint64_t fingerprint_of(const std::string& path) {
  return fingerprint(MappedFile(path, {.what = "cannot read '" + path + "'"}).bytes());
}

void prepare_for_output() {
  std::signal(SIGXFSZ, SIG_IGN);
  int file = STDIN_FILENO;
  while (file >= 0 && file <= STDERR_FILENO) file = ::open("/dev/null", O_RDONLY);
  ::close(file);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    fcntl(output, F_SETFL, fcntl(output, F_GETFL) & ~O_NONBLOCK);
}

}  // namespace nanofsdp
