#include "store/new_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"

namespace nanofsdp::store {

void sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

void cannot_write(const std::string& path) {
  NANOFSDP_REFUSE(.what = "cannot write '" + path + "'", .got = std::strerror(errno));
}

NewFile::NewFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) cannot_write(temporary_);
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  fingerprint_ = nanofsdp::fingerprint(bytes, fingerprint_);
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void NewFile::finish() {
  const auto size = static_cast<off_t>(bytes_);  // a caller may have caught the error of a write
  if (::fsync(file_) != 0 || ::lseek(file_, 0, SEEK_END) != size) cannot_write(path_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) cannot_write(path_);
  ::close(std::exchange(file_, -1));
  sync_directory(std::filesystem::absolute(path_).parent_path().string());
}

void write_new_file(const std::filesystem::path& path, std::string_view text) {
  NewFile file(path.string());
  file.write(std::as_bytes(std::span(text)));
  file.finish();
}

}  // namespace nanofsdp::store
