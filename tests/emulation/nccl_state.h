#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "nccl.h"

/// @file
/// @brief What the emulated communicators of a process know of each other.

namespace emulation {

extern std::mutex mutex;  // of all that follows

// A rank's part of a collective.
struct Part {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};
using Parts = std::vector<Part>;

struct Meeting {
  Parts parts;
  std::map<int, int> colors;  // by rank, of a split
  std::map<int, std::shared_ptr<struct Group>> children;
  std::size_t came = 0;
  bool done = false;
};

// What a rank sends another, until the other has it.
struct Letter {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  bool taken = false;
};

struct Group {
  explicit Group(int size) : size(static_cast<std::size_t>(size)) {}
  const std::size_t size;
  std::size_t joined = 0, finalized = 0;
  bool broken = false;  // by an abort
  std::map<std::uint64_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Letter>>> mail;  // by sender, receiver
};

// A communicator, for as long as a stream knows it.
struct State {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t calls = 0, done = 0;
  bool aborted = false, finalizing = false;
  std::function<bool()> begun;  // the call that is being taken up
  int asked = 0;
};

// Everything is begun here; ncclCommGetAsyncError goes on.
ncclResult_t begin(ncclComm_t comm, std::function<bool()> call);

}  // namespace emulation

struct ncclComm {
  std::shared_ptr<emulation::State> state;
};
