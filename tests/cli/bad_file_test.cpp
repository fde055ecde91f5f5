#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temporary_directory.h"

// Tests wrong files, and places in which nothing can be written: the result is an error, and the
// user's files do not change.

namespace nanofsdp::bad_file_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;

const std::string kTiny =
    "--max_iters=1 --eval_iters=1 --eval_interval=1 --batch_size=2 --block_size=4 --n_layer=1 "
    "--n_head=1 --n_embd=8";

// Runs the program from a shell, in a directory; `line` may redirect.
int shell(const TemporaryDirectory& directory, const std::string& line) {
  const std::string whole = "cd '" + directory.file("") + "' && " + NANOFSDP_BINARY + " " + line;
  const int status = std::system(whole.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// All files in a directory, with their contents.
std::map<std::string, std::string> tree(const TemporaryDirectory& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory.file(""))) {
    std::error_code ignored;  // for a link to a missing file
    const bool readable = entry.is_regular_file(ignored) && entry.file_size(ignored) < 1'000'000;
    files[entry.path().string()] = readable ? read_file(entry.path().string()) : "";
  }
  files.erase(directory.file("stderr"));
  files.erase(directory.file("stdout"));
  return files;
}

struct Case {
  std::function<void(const TemporaryDirectory&)> prepare;
  std::vector<std::string> args;
  std::vector<std::string> words;
};

auto file(const std::string& name, const std::string& content) {
  return [=](const TemporaryDirectory& d) { d.write(name, content); };
}

// A file that takes no room on the disk, but would take all of the memory.
auto endless(const std::string& name) {
  return [=](const TemporaryDirectory& d) {
    d.write(name, "");
    fs::resize_file(d.file(name), std::uintmax_t{1} << 40);
  };
}

auto pipe_at(const std::string& name) {
  return [=](const TemporaryDirectory& d) { mkfifo(d.file(name).c_str(), 0600); };
}

auto link_to(const std::string& target, const std::string& name) {
  return [=](const TemporaryDirectory& d) { fs::create_symlink(target, d.file(name)); };
}

const std::string kBook(2000, 'b');

const std::vector<Case> kCases = {
    {file("t", "x"), {"train", "--text=t"}, {"text 't'", "more than 64"}},
    {file("t", "a\xff" + kBook), {"train", "--text=t"}, {"text 't'", "byte 1", "UTF-8"}},
    {endless("t"), {"train", "--text=t"}, {"text 't'", "1099511627776 bytes"}},
    {pipe_at("t"), {"train", "--text=t"}, {"text 't'", "a device or a pipe"}},
    {link_to("t", "t"), {"train", "--text=t"}, {"text 't'"}},
    {file("t", kBook), {"train", "--text=t", "--metrics=t"}, {"--metrics", "that of --text"}},
    {file("t", kBook), {"train", "--text=t", "--trace=./t"}, {"--trace", "that of --text"}},
    {file("c.py", "dataset = 'tales'"),
     {"train", "c.py", "--metrics=c.py"},
     {"--metrics", "be lost"}},
    {file("main.c", "int main;"), {"train", "--trace=main.c"}, {"--trace", "be lost"}},
    {file("t", "keep"), {"plan", "--machine=h100", "--trace=t"}, {"--trace", "be lost"}},
    {file("config.json", "{\"n_layer\": 12}"),
     {"train", "--metrics=config.json"},
     {"--metrics", "be lost"}},
    {file("f", ""), {"train", "--out_dir=f"}, {"--out_dir", "'f/model.safetensors' (a file)"}},
    {file("f", ""), {"train", "--out_dir=f/g"}, {"--out_dir", "'f/g/model.safetensors' (a file)"}},
    {file("f", ""), {"train", "--metrics=f/g"}, {"--metrics", "'f/g'"}},
    {[](const TemporaryDirectory& d) { fs::create_directories(d.file("o/model.safetensors")); },
     {"train", "--out_dir=o"},
     {"--out_dir", "a directory"}},
    {[](const TemporaryDirectory& d) { fs::create_directories(d.file("o/run.svg")); },
     {"train", "--out_dir=o"},
     {"--out_dir", "'o/run.svg' (a directory)"}},
    {file("r", "{\"iter\": 0}\n[3]\n{\"loss\": 1}\nnull"),
     {"train", "--out_dir=o", "--reference=r"},
     {"--reference=r", "iter and loss", "none"}},
    {link_to("/dev/zero", "r"),
     {"train", "--out_dir=o", "--reference=r"},
     {"--reference=r", "a device or a pipe"}},
    {endless("c"), {"train", "c"}, {"config file 'c'", "1099511627776 bytes"}},
    {pipe_at("c"), {"train", "c"}, {"config file 'c'", "a device or a pipe"}},
    {file("c", std::string(9000, 'x')), {"train", "c"}, {"c:1: expected name = ", "xxx..."}},
    {file("c",
          "\x7f"
          "ELF\x02\x01\x01"),
     {"train", "c"},
     {"c:1: ", "'\\x7fELF\\x02"}},
    {file("c", "out_dir = 'a"), {"train", "c"}, {"c:1: ", "quoted string"}},
    {file("c", std::string("out_dir = 'a\0b'", 15)), {"train", "c"}, {"c:1: ", "'a\\x00b'"}},
    {file("c", "n_layer = 'four'"), {"train", "c"}, {"c:1: --n_layer", "an integer"}},
    {file("c", "n_layer = True"), {"train", "c"}, {"c:1: --n_layer", "an integer"}},
    {file("c", "config = 'c'"), {"train", "c"}, {"c:1: ", "cannot name another"}},
    {file("c", "import os\nn_layer = 2 * x"), {"train", "c"}, {"c:2: ", "a name", "'2 * x'"}},
    {file("c", "n_layer = 2"), {"train", "c"}, {"--dataset=openwebtext", "prepare.py"}},
    {endless("model.safetensors"), {"sample", "--out_dir=."}, {"model.safetensors", "JSON"}},
    {pipe_at("model.safetensors"), {"sample", "--out_dir=."}, {"model.safetensors"}},
    {link_to("/dev/zero", "model.safetensors"), {"sample", "--out_dir=."}, {"model.safetensors"}},
    {file("model.safetensors", std::string("\0\0\1\0\0\0\0\0", 8) + std::string(65536, '[')),
     {"sample", "--out_dir=."},
     {"model.safetensors", "JSON"}},
};

TEST(BadFile, IsNamedAndNothingIsTouched) {
  for (const Case& c : kCases) {
    const TemporaryDirectory directory;
    c.prepare(directory);
    const auto before = tree(directory);
    Process process(directory.file(""), c.args);
    ASSERT_EQ(process.wait(20s), 2) << c.args.back();
    const std::string err = process.err();
    EXPECT_EQ(std::ranges::count(err, '\n'), 1) << err;
    for (const std::string& word : c.words) EXPECT_NE(err.find(word), std::string::npos) << err;
    EXPECT_EQ(process.out(), "");
    EXPECT_TRUE(tree(directory) == before) << err;
  }
}

// Disks may be full, and a program may be started with its output closed. /dev/full stands for
// both, if the system has it.
TEST(FullDisk, IsAnErrorWhereverOutputGoes) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const TemporaryDirectory saved;
  ASSERT_EQ(shell(saved, "train " + kTiny + " --out_dir=. >stdout"), 0);
  const std::string model = " --out_dir='" + saved.file("") + "'";
  const std::string lines[] = {
      "sample --ranks=2 >/dev/full" + model,
      "export --ranks=1 >/dev/full" + model + " --to='" + saved.file("one") + "'",
      "export --ranks=2 >/dev/full" + model + " --to='" + saved.file("two") + "'",
      "train " + kTiny + " >/dev/full",
      "train " + kTiny + " --ranks=2 >/dev/full",
      "train " + kTiny + " --ranks=2 --backend=local >/dev/full",
      "train " + kTiny + " --metrics=/dev/full >/dev/null",
      "train " + kTiny + " --metrics=/proc/nothing_there >/dev/null",
      "train " + kTiny + " --trace=/dev/full >/dev/null",
      "train " + kTiny + " >&-",
      "train " + kTiny + " --metrics=m --out_dir=o >&- <&-",
      "train --help >/dev/full",
      "train --help >&-",
      "--help >/dev/full",
      "bench --help >/dev/full",
  };
  for (const std::string& line : lines) {
    const TemporaryDirectory directory;
    EXPECT_EQ(shell(directory, line + " 2>stderr"), 2) << line;
    const std::string err = read_file(directory.file("stderr"));
    EXPECT_EQ(std::ranges::count(err, '\n'), 1) << line << err;
    fs::remove(directory.file("o/run.lock"));
    fs::remove(directory.file("o"));  // if it is empty
    EXPECT_TRUE(tree(directory).empty()) << line;
  }
}

// The file is opened before the first evaluation, which may take long. Only the system can say
// whether it can be opened: here even root cannot.
TEST(Metrics, ThatCannotBeOpenedAreSaidBeforeTraining) {
  if (!fs::exists("/proc/self")) GTEST_SKIP() << "no /proc here";
  const TemporaryDirectory directory;
  const std::string line = "train " + kTiny + " --metrics=/proc/nothing_there >stdout 2>stderr";
  EXPECT_EQ(shell(directory, line), 2);
  EXPECT_EQ(read_file(directory.file("stdout")).find("step 0"), std::string::npos);
  EXPECT_NE(read_file(directory.file("stderr")).find("--metrics"), std::string::npos);
}

// The first file that is opened gets the lowest free number, which must not be that of stdout.
TEST(ClosedStreams, DoNotBecomeFiles) {
  const TemporaryDirectory directory;
  EXPECT_EQ(shell(directory, "train " + kTiny + " <&- 2>&- --metrics=m >stdout"), 0);
  EXPECT_NE(read_file(directory.file("stdout")).find("--- a sample ---"), std::string::npos);
  EXPECT_TRUE(read_file(directory.file("m")).starts_with("{\"iter\":0"));
  EXPECT_NE(shell(directory, "train --n_layer=x <&- >&- 2>&-"), 0);
}

// Files of an earlier run may be replaced, and there may be files in the place of the weights.
TEST(Outputs, MayBeWrittenAgain) {
  const TemporaryDirectory directory;
  const std::string line =
      "train " + kTiny + " --out_dir=o/p --metrics=o/p/m --trace=o/p/t >stdout 2>stderr";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(shell(directory, line), 0) << read_file(directory.file("stderr"));
  }
  EXPECT_EQ(tree(directory).size(), 16u);  // three directories, seven files, two checkpoints
  EXPECT_EQ(shell(directory, "sample --out_dir=o/p --max_new_tokens=9 >/dev/full 2>stderr"), 2);
  EXPECT_EQ(shell(directory, "sample --out_dir=o/p --start=\xc3\xa9 >stdout 2>stderr"), 2);
  EXPECT_NE(read_file(directory.file("stderr")).find("leave it out of --start"), std::string::npos);
}

// A limit of the shell is like a full disk: the run ends with an error, and half of a file is
// removed.
TEST(FileSizeLimit, LeavesNoHalfOfAFile) {
  const TemporaryDirectory directory;
  const std::string train = std::string("exec ") + NANOFSDP_BINARY + " train " + kTiny;
  EXPECT_EQ(shell(directory, "--help >/dev/null; ulimit -f 1; " + train +
                                 " --n_embd=64 --out_dir=o >/dev/null 2>stderr"),
            2);
  EXPECT_NE(read_file(directory.file("stderr")).find("cannot write 'o/checkpoint.new/rank_0_of_1"),
            std::string::npos);
  EXPECT_EQ(tree(directory).size(), 2u);  // a directory, and the lock on it
}

TEST(Divergence, IsSaidAndNotSampled) {
  const TemporaryDirectory directory;
  EXPECT_EQ(shell(directory, "train " + kTiny + " --learning_rate=1e300 >stdout 2>stderr"), 1);
  EXPECT_NE(read_file(directory.file("stderr")).find("training stopped at iteration "),
            std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::bad_file_test
