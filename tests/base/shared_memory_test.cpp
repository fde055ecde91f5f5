#include "base/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "base/platform.h"
#include "support/errors.h"

// Two mappings of one file stand for two processes.

namespace nanofsdp {
namespace {

using testing::expect_error;

class SharedMemoryOfTwo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (file_ < 0) GTEST_SKIP() << "this system has no files in memory";
  }
  ~SharedMemoryOfTwo() override { close(file_); }

  // The bytes of the file that take memory.
  std::int64_t taken() const {
    struct stat status {};
    fstat(file_, &status);
    return std::int64_t{512} * status.st_blocks;
  }

  const int file_ = open_shared_file(2 * SharedMemory::part_bytes(2));
};

std::string text_at(const void* address) { return static_cast<const char*>(address); }

TEST_F(SharedMemoryOfTwo, IsReadByEachWhereTheOtherWrote) {
  SharedMemory first(file_, 2, 0), second(file_, 2, 1);
  void* const a = first.allocate(100);
  void* const b = second.allocate(100);
  EXPECT_EQ(text_at(a), "");
  std::strcpy(static_cast<char*>(a), "of the first");
  std::strcpy(static_cast<char*>(b), "of the second");
  EXPECT_EQ(text_at(second.at(0, first.offset_of(a))), "of the first");
  EXPECT_EQ(text_at(first.at(1, second.offset_of(b))), "of the second");
}

TEST_F(SharedMemoryOfTwo, OwnsItsPartAlone) {
  const SharedMemory first(file_, 2, 0), second(file_, 2, 1);
  const std::size_t bytes = SharedMemory::part_bytes(2);
  EXPECT_TRUE(first.owns(first.at(0, 0)));
  EXPECT_TRUE(first.owns(first.at(0, bytes - 1)));
  EXPECT_FALSE(first.owns(first.at(1, 0)));
  EXPECT_FALSE(second.owns(second.at(0, bytes - 1)));
  EXPECT_TRUE(second.owns(second.at(1, 0)));
  EXPECT_FALSE(second.owns(&bytes));
}

// Otherwise a process that may look up the file's number could open it.
TEST_F(SharedMemoryOfTwo, IsAFileOfItsUserAlone) {
  struct stat status {};
  ASSERT_EQ(fstat(file_, &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// The bytes of all mappings of the file that the system would write into a core dump.
std::int64_t dumped_bytes() {
  std::ifstream file("/proc/self/smaps");
  std::int64_t dumped = 0, kilobytes = 0;
  bool ours = false;
  for (std::string line; std::getline(file, line);) {
    if (line.find(" rw-s ") != line.npos) ours = line.find("memfd:nanofsdp") != line.npos;
    if (line.starts_with("Size:")) kilobytes = std::stoll(line.substr(5));
    if (!line.starts_with("VmFlags:")) continue;
    if (ours && line.find(" dd") == line.npos) dumped += 1024 * kilobytes;
    ours = false;
  }
  return dumped;
}

// A dump of all parts would take as much memory as the machine has, and again for each rank.
TEST_F(SharedMemoryOfTwo, IsInACoreDumpWhereItsRankHasAllocated) {
  SharedMemory memory(file_, 2, 0);
  if (!std::filesystem::exists("/proc/self/smaps")) GTEST_SKIP() << "this system does not tell";
  EXPECT_EQ(dumped_bytes(), 0);
  void* const a = memory.allocate(1 << 20);
  void* const b = memory.allocate(1 << 16);
  EXPECT_EQ(dumped_bytes(), (1 << 20) + (1 << 16));
  memory.release(a);
  EXPECT_EQ(dumped_bytes(), 1 << 16);
  memory.release(b);
  EXPECT_EQ(dumped_bytes(), 0);
}

// A page takes memory from its first write to its release. The next allocation finds zeros there.
TEST_F(SharedMemoryOfTwo, TakesAndGivesBackMemoryByThePage) {
  SharedMemory memory(file_, 2, 0);
  constexpr std::int64_t kBytes = 8 << 20;
  void* const a = memory.allocate(kBytes);
  EXPECT_EQ(taken(), 0);
  std::memset(a, 1, kBytes);
  EXPECT_EQ(taken(), kBytes);
  memory.release(a);
  EXPECT_EQ(taken(), 0);
  void* const again = memory.allocate(kBytes / 2);
  EXPECT_EQ(again, a);
  EXPECT_EQ(std::count(static_cast<char*>(again), static_cast<char*>(again) + kBytes / 2, 0),
            kBytes / 2);
}

#if defined(F_SEAL_FUTURE_WRITE)
// Some systems do not take pages back. Here a sealed file refuses it.
TEST(SharedMemory, IsZeroAgainWhereTheSystemKeepsThePages) {
  const int file = memfd_create("sealed", MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(SharedMemory::part_bytes(1))), 0);
  SharedMemory memory(file, 1, 0);
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  constexpr std::int64_t kBytes = 1 << 20;
  ASSERT_FALSE(give_back_pages(memory.at(0, 0), kBytes));
  void* const a = memory.allocate(kBytes);
  std::memset(a, 1, kBytes);
  memory.release(a);
  ASSERT_EQ(memory.allocate(kBytes), a);
  EXPECT_EQ(std::count(static_cast<char*>(a), static_cast<char*>(a) + kBytes, 0), kBytes);
  close(file);
}
#endif

// Allocations never overlap, whatever is allocated and released in between.
TEST_F(SharedMemoryOfTwo, KeepsAllocationsApart) {
  SharedMemory memory(file_, 2, 1);
  std::vector<std::pair<char*, std::size_t>> held;
  std::uint64_t random = 1;
  for (int i = 0; i < 500; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    if (held.size() > 20 || (random >> 60 < 6 && !held.empty())) {
      const auto one = held.begin() + static_cast<std::ptrdiff_t>((random >> 33) % held.size());
      memory.release(one->first);
      held.erase(one);
    } else {
      const std::size_t bytes = (random >> 33) % 500'000;  // also 0
      held.emplace_back(static_cast<char*>(memory.allocate(bytes)),
                        std::max<std::size_t>(bytes, 1));
      ASSERT_TRUE(memory.owns(held.back().first));
    }
    std::ranges::sort(held);
    for (std::size_t k = 1; k < held.size(); ++k) {
      ASSERT_GE(held[k].first, held[k - 1].first + held[k - 1].second);
    }
  }
}

TEST_F(SharedMemoryOfTwo, SaysWhenAPartIsFull) {
  SharedMemory memory(file_, 2, 0);
  const std::size_t bytes = SharedMemory::part_bytes(2);
  for (const std::size_t too_many : {bytes + 1, ~std::size_t{0} - 65'535, ~std::size_t{0}}) {
    EXPECT_THROW(memory.allocate(too_many), Error) << too_many;
  }
  memory.allocate(bytes);
  expect_error<Error>([&] { memory.allocate(5); }, "expected room for 5 bytes, got none");
}

// Buffers that peers read lie there, and no others.
TEST_F(SharedMemoryOfTwo, HoldsTheBuffersOfWhatCollectivesRead) {
  SharedMemory memory(file_, 2, 0);
  Ledger ledger;
  for (const MemoryClass c : kMemoryClasses) {
    const Buffer buffer(ledger, c, 64, Device::cpu, Buffer::Use::whole, &memory);
    const bool private_class = c == MemoryClass::optimizer || c == MemoryClass::activations;
    EXPECT_EQ(memory.owns(buffer.tensor({1}).raw()), !private_class) << name_of(c);
    EXPECT_EQ(ledger.count(c).reserved, 64);
  }
  EXPECT_EQ(ledger.total(), 0);
}

// Without this check, writing beyond the limit would end the process.
TEST_F(SharedMemoryOfTwo, IsRefusedAboveTheLimitOnFiles) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &small);
    _exit(open_shared_file(2 << 20) == -1 && errno == EFBIG ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace nanofsdp
