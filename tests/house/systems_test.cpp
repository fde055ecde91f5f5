#include <gtest/gtest.h>

#include <set>

#include "house/source_tree.h"

// Tests that all code for one operating system lies in one file, and that a page lists it.

namespace house {
namespace {

using Names = std::set<std::string>;

const std::string kPlatform = "src/base/platform.cpp";

/// The names in `code` that belong to Linux, to Apple's systems or to one C library. POSIX names do
/// not count.
Names of_one_system(const std::string& code) {
  static const std::regex pattern(
      R"(\b__(?:linux|gnu_linux|APPLE|MACH|FreeBSD|GLIBC|BIONIC)\w*|)"
      R"(<(?:linux/\w+|malloc|sched|sys/(?:prctl|syscall|epoll|eventfd|inotify|random|sysinfo|vfs)|)"
      R"(mach/\w+|mach-o/\w+)\.h>|)"
      R"("/(?:proc|sys|dev/shm)\b|)"
      R"(\b(?:prctl|syscall|futex|memfd_create|accept4|pipe2|dup3|gettid|getrandom|sendfile|splice|)"
      R"(madvise|mremap|fallocate|eventfd|signalfd|secure_getenv|sigabbrev_np|malloc_trim|mallopt|)"
      R"((?:epoll|inotify|timerfd|sched|process_vm|pidfd)_\w+|pthread_\w+_np)\(|)"
      R"(\b(?:SOCK_CLOEXEC|SOCK_NONBLOCK|O_PATH|SO_PEERCRED|PR_\w+|SYS_\w+|CLONE_\w+|)"
      R"(TCP_(?:USER|QUICK)\w+|MFD_\w+|AT_EMPTY_PATH|_SC_LEVEL\w+)\b)");
  Names found;
  for (std::sregex_iterator m(code.begin(), code.end(), pattern), end; m != end; ++m) {
    found.insert(m->str());
  }
  return found;
}

TEST(Systems, AreToldApart) {
  EXPECT_EQ(of_one_system("open(path, O_RDONLY); fork(); mmap(0, n); fcntl(f, F_SETFD, 1);"),
            Names{});
  EXPECT_EQ(of_one_system("#include <sys/prctl.h>\nread(\"/proc/self/stat\"); accept4(l, 0, 0, "
                          "SOCK_CLOEXEC);\n#if defined(__APPLE__)"),
            (Names{"<sys/prctl.h>", "\"/proc", "accept4(", "SOCK_CLOEXEC", "__APPLE__"}));
}

TEST(Systems, StandBehindOneFile) {
  EXPECT_GT(of_one_system(without_comments(read(kPlatform))).size(), 18u);
  for (const auto& file : files("src", {".h", ".cpp", ".cu", ".cuh"})) {
    if (file == kPlatform) continue;
    EXPECT_EQ(of_one_system(without_comments(read(file))), Names{}) << file;
  }
}

TEST(Systems, AreListedOnAPage) {
  static const std::regex function(R"(\b(\w+)\()");
  const std::string code = without_comments(read("src/base/platform.h"));
  const std::string page = read("lessons/platforms.md");
  int functions = 0;
  for (std::sregex_iterator m(code.begin(), code.end(), function), end; m != end; ++m) {
    const std::string name = (*m)[1];
    if (name == "void") continue;  // in void(), the type of a function
    ++functions;
    EXPECT_NE(page.find("| `" + name + "` |"), page.npos) << name;
  }
  EXPECT_GE(functions, 15);
}

}  // namespace
}  // namespace house
