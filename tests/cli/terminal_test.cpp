#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

// The text that a person sees in a terminal.

namespace nanofsdp::terminal_test {
namespace {

// Runs the program with a terminal as its output, and returns all that it shows there.
std::string shown(const std::vector<std::string>& args) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return "";
  const std::string name = ptsname(terminal);
  const int slave = open(name.c_str(), O_RDWR | O_NOCTTY);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(slave, STDOUT_FILENO), dup2(slave, STDERR_FILENO);
    std::vector<std::string> words = {NANOFSDP_BINARY};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(slave);
  std::string all, part(4096, '\0');
  for (ssize_t n; (n = read(terminal, part.data(), part.size())) > 0;)
    all.append(part, 0, static_cast<std::size_t>(n));
  waitpid(pid, nullptr, 0);
  close(terminal);
  return all;
}

// An error has a line of its own, also behind a line of progress.
TEST(Terminal, ShowsAnErrorInALineOfItsOwn) {
  for (const char* ranks : {"--ranks=1", "--ranks=2"}) {
    const std::string all =
        shown({"train", ranks, "--n_layer=1", "--n_head=1", "--n_embd=8", "--block_size=8",
               "--batch_size=4", "--max_iters=50", "--learning_rate=1e30", "--warmup_iters=0",
               "--grad_clip=0", "--log_interval=1", "--eval_iters=1", "--threads=1"});
    if (all.empty()) GTEST_SKIP() << "this system has no terminals";
    const std::size_t at = all.find("nanofsdp: ");
    ASSERT_NE(at, all.npos) << all;
    ASSERT_NE(all.find("iter 0/50: loss"), all.npos) << all;
    const std::string before = all.substr(0, at);
    EXPECT_TRUE(before.ends_with("\r\x1b[K") || before.ends_with("\n")) << all;
  }
}

}  // namespace
}  // namespace nanofsdp::terminal_test
