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
/// @brief The state that the emulated communicators of a process share.

namespace emulation {

extern std::mutex mutex;  // guards everything below

// A rank's part of a collective.
struct Part {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};
using Parts = std::vector<Part>;

struct Meeting {
  Parts parts;
  std::map<int, int> colors;  // for a split, by rank
  std::map<int, std::shared_ptr<struct Group>> children;
  std::size_t came = 0;
  bool done = false;
};

// The data that a rank sends to another one, until that one has it.
struct Letter {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  bool taken = false;
};

struct Group {
  explicit Group(int size) : size(static_cast<std::size_t>(size)) {}
  const std::size_t size;
  std::size_t joined = 0, finalized = 0;
  bool broken = false;  // whether an abort has broken the group
  std::map<std::uint64_t, Meeting> meetings;
  // By sender and receiver.
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Letter>>> mail;
};

// A communicator, which lives as long as a stream uses it.
struct State {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t calls = 0, done = 0;
  bool aborted = false, finalizing = false;
  std::function<bool()> begun;  // the call that has begun
  int asked = 0;
};

// Begins a call; ncclCommGetAsyncError continues it.
ncclResult_t begin(ncclComm_t comm, std::function<bool()> call);

}  // namespace emulation

struct ncclComm {
  std::shared_ptr<emulation::State> state;
};
