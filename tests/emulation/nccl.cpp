#include "nccl.h"

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

std::mutex mutex;  // of all that follows

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

struct Group {
  explicit Group(int size) : size(static_cast<std::size_t>(size)) {}
  const std::size_t size;
  std::size_t joined = 0, finalized = 0;
  bool broken = false;  // by an abort
  std::map<std::uint64_t, Meeting> meetings;
};

std::map<std::string, std::shared_ptr<Group>> groups;
int ids = 0;

// A communicator, for as long as a stream knows it.
struct State {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t calls = 0, done = 0;
  bool aborted = false, finalizing = false;
  std::function<bool()> begun;  // the call that is being taken up
  int asked = 0;
};

}  // namespace

struct ncclComm {
  std::shared_ptr<State> state;
};

namespace {

ncclComm_t make(std::shared_ptr<Group> group, int rank) {
  ++group->joined;
  return new ncclComm{std::make_shared<State>(State{.group = std::move(group), .rank = rank})};
}

// Everything is begun here; ncclCommGetAsyncError goes on.
ncclResult_t begin(ncclComm_t comm, std::function<bool()> call) {
  const std::lock_guard lock(mutex);
  State& state = *comm->state;
  if (state.begun) return ncclInvalidArgument;  // somebody has not asked to the end
  state.begun = std::move(call);
  state.asked = 0;
  return ncclInProgress;
}

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, Part part,
                     std::function<void(const Parts&)> collective) {
  const auto state = comm->state;
  const std::uint64_t number = ++state->calls;
  const auto on_the_device = [=, came = false]() mutable {
    const std::lock_guard lock(mutex);
    if (state->aborted) return true;
    Meeting& meeting = state->group->meetings[number];
    if (!came) {
      came = true;
      meeting.parts.resize(state->group->size);
      meeting.parts[static_cast<std::size_t>(state->rank)] = part;
      meeting.done = ++meeting.came == state->group->size;
      if (meeting.done) collective(meeting.parts);
    }
    if (meeting.done) ++state->done;
    return meeting.done;
  };
  return begin(comm, [=] { return emulation::enqueue(stream, on_the_device), true; });
}

float load(const std::byte* from, std::size_t i, ncclDataType_t type) {
  if (type == ncclFloat32) {
    float value = 0;
    return std::memcpy(&value, from + i * 4, 4), value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, from + i * 2, 2);
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

void store(std::byte* to, std::size_t i, ncclDataType_t type, float value) {
  if (type == ncclFloat32) {
    std::memcpy(to + i * 4, &value, 4);
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto half = static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  std::memcpy(to + i * 2, &half, 2);
}

// Elements [first, first + count) of the sum over ranks.
std::vector<float> sum(const Parts& parts, std::size_t first, std::size_t count,
                       ncclDataType_t type, ncclRedOp_t op) {
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const Part& part : parts) sum[i] += load(part.in, first + i, type);
    if (op == ncclAvg) sum[i] /= static_cast<float>(parts.size());
  }
  return sum;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "emulated error";
}
const char* ncclGetLastError(ncclComm_t) { return "a peer is gone\n and more lines"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  std::snprintf(id->internal, sizeof id->internal, "id %d", ++ids);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  {
    const std::lock_guard lock(mutex);
    std::shared_ptr<Group>& group = groups[id.internal];
    if (!group) group = std::make_shared<Group>(ranks);
    *comm = make(group, rank);
  }
  const auto group = (*comm)->state->group;
  return begin(*comm, [group] {
    const std::lock_guard lock(mutex);
    return group->joined == group->size;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int, ncclComm_t* child, ncclConfig_t*) {
  if (color < 0) return ncclInvalidArgument;
  *child = nullptr;
  const auto state = comm->state;
  Meeting* meeting = nullptr;
  {
    const std::lock_guard lock(mutex);
    meeting = &state->group->meetings[++state->calls];
    ++state->done;
    meeting->colors[state->rank] = color;
  }
  return begin(comm, [=] {
    const std::lock_guard lock(mutex);
    if (meeting->colors.size() < state->group->size) return false;
    int rank = 0, size = 0;
    for (const auto& [peer, theirs] : meeting->colors) {
      if (theirs != color) continue;
      if (peer < state->rank) ++rank;
      ++size;
    }
    std::shared_ptr<Group>& group = meeting->children[color];
    if (!group) group = std::make_shared<Group>(size);
    *child = make(group, rank);
    return true;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  std::unique_lock lock(mutex);
  State& state = *comm->state;
  const bool waits = state.begun || state.done < state.calls;
  if (waits && state.group->broken) return *result = ncclRemoteError, ncclSuccess;
  *result = ncclInProgress;
  if (state.begun) {
    if (++state.asked < 2) return ncclSuccess;
    const auto call = state.begun;
    lock.unlock();  // which the call takes, and so does what it puts on a stream
    const bool taken = call();
    lock.lock();
    if (!taken) return ncclSuccess;
    state.begun = nullptr;
  }
  return *result = ncclSuccess, ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return *rank = comm->state->rank, ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* size) {
  return *size = static_cast<int>(comm->state->group->size), ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto group = comm->state->group;
  {
    const std::lock_guard lock(mutex);
    ++group->finalized;
  }
  return begin(comm, [group] {
    const std::lock_guard lock(mutex);
    return group->finalized == group->size;
  });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return delete comm, ncclSuccess; }

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const std::lock_guard lock(mutex);
  comm->state->aborted = comm->state->group->broken = true;
  comm->state->begun = nullptr;
  return delete comm, ncclSuccess;
}

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t,
                           ncclComm_t comm, cudaStream_t stream) {
  const Part mine{static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
  return enqueue(comm, stream, mine, [count](const Parts& parts) {
    for (const Part& to : parts) {
      std::byte* chunk = to.out;
      for (const Part& from : parts) {
        if (count > 0) std::memmove(chunk, from.in, count);
        chunk += count;
      }
    }
  });
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const Part mine{static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
  return enqueue(comm, stream, mine, [=](const Parts& parts) {
    std::vector<std::vector<float>> sums;  // before any is written: in place they are operands too
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      sums.push_back(sum(parts, rank * count, count, type, op));
    }
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      for (std::size_t i = 0; i < count; ++i) store(parts[rank].out, i, type, sums[rank][i]);
    }
  });
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const Part mine{static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
  return enqueue(comm, stream, mine, [=](const Parts& parts) {
    const std::vector<float> all = sum(parts, 0, count, type, op);
    for (const Part& part : parts) {
      for (std::size_t i = 0; i < count; ++i) store(part.out, i, type, all[i]);
    }
  });
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const Part mine{static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
  return enqueue(comm, stream, mine, [=](const Parts& parts) {
    for (const Part& part : parts) {
      if (count > 0) std::memmove(part.out, parts[static_cast<std::size_t>(root)].in, count);
    }
  });
}
