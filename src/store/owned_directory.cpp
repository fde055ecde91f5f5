#include "store/owned_directory.h"

#include <fmt/format.h>

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "store/new_file.h"

namespace nanofsdp::store {

namespace fs = std::filesystem;

std::shared_ptr<void> own_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  NANOFSDP_REFUSE_IF(error, .what = "--out_dir", .expected = "a directory that can be made",
                     .got = fmt::format("'{}' ({})", path, error.message()));
  const std::string name = path + "/run.lock";
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) cannot_write(name);
  const std::shared_ptr<void> owned(nullptr, [=](void*) { ::close(file); });
  struct flock lock {};
  lock.l_type = F_WRLCK;
  const auto is_taken = [&] {
    return ::fcntl(file, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN);
  };
  // The ranks of a run whose launcher was killed end a moment later.
  for (int tries = 0; tries < 10 && is_taken(); ++tries) ::usleep(100'000);
  if (!is_taken()) return owned;
  ::fcntl(file, F_GETLK, &lock);
  NANOFSDP_REFUSE(.what = "--out_dir=" + path,
                  .expected = "a directory that no other run saves into",
                  .got = lock.l_pid > 0 ? fmt::format("that of process {}", lock.l_pid)
                                        : "that of a process on another machine",
                  .hint = "wait for that run, or end it, or name another directory");
}

fs::path set_aside(const fs::path& directory, const std::vector<std::string>& names) {
  fs::path to, made;
  for (int n = 1; to.empty() || fs::exists(to); ++n)
    to = directory / fmt::format("set_aside.{}", n);
  for (const std::string& name : names) {
    if (!fs::exists(fs::symlink_status(directory / name))) continue;  // it may lead nowhere
    fs::create_directory(made = to);
    fs::rename(directory / name, to / name);
  }
  return made;
}

}  // namespace nanofsdp::store
