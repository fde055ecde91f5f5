#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "faults.h"
#include "nccl_state.h"

std::atomic<std::size_t> emulation::sent = 0;

using namespace emulation;

namespace {

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, Part part,
                     std::function<void(const Parts&)> collective) {
  if (fails()) return ncclInternalError;
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

// The sends and receives of a thread's group.
struct Exchange {
  struct Side {
    int peer = 0;
    std::size_t size = 0;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
  };
  std::vector<Side> sends{}, receives{};
  ncclResult_t error = ncclSuccess;  // the end of the group returns that of a call
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};
thread_local int open_groups = 0;
thread_local Exchange grouped;

ncclResult_t add_to_group(ncclComm_t comm, cudaStream_t stream,
                          std::vector<Exchange::Side> Exchange::*sides, Exchange::Side side) {
  const int size = static_cast<int>(comm->state->group->size);
  if (fails()) return grouped.error = ncclInternalError;
  const bool another = grouped.comm != nullptr && grouped.comm != comm;
  if (open_groups == 0 || another) return ncclInvalidUsage;
  if (side.peer < 0 || side.peer >= size) return ncclInvalidArgument;
  grouped.comm = comm;
  grouped.stream = stream;
  (grouped.*sides).push_back(side);
  return ncclSuccess;
}

ncclResult_t enqueue(const Exchange& calls) {
  const auto state = calls.comm->state;
  ++state->calls;
  const auto on_the_device = [=, receives = calls.receives, posted = false,
                              letters = std::vector<std::shared_ptr<Letter>>()]() mutable {
    const std::lock_guard lock(mutex);
    if (state->aborted) return true;
    auto& mail = state->group->mail;
    if (!std::exchange(posted, true)) {
      for (const Exchange::Side& to : calls.sends) {
        letters.push_back(std::make_shared<Letter>(Letter{to.from, to.size}));
        mail[{state->rank, to.peer}].push_back(letters.back());
        emulation::sent += to.size;
      }
    }
    if (state->group->broken) return false;  // the data may have been freed
    std::erase_if(receives, [&](const Exchange::Side& from) {
      auto& box = mail[{from.peer, state->rank}];
      if (box.empty() || box.front()->size != from.size) return false;
      std::memcpy(from.to, box.front()->bytes, from.size);
      box.front()->taken = true;
      box.pop_front();
      return true;
    });
    const bool done = receives.empty() && std::ranges::all_of(letters, &Letter::taken);
    if (done) ++state->done;
    return done;
  };
  return begin(calls.comm, [=] { return emulation::enqueue(calls.stream, on_the_device), true; });
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

float rounded(float value, ncclDataType_t type) {
  std::byte there[4];
  store(there, 0, type, value);
  return load(there, 0, type);
}

// Elements [first, first + count) of the sum over ranks, on a ring that ends at rank `last`.
std::vector<float> sum(const Parts& parts, std::size_t last, std::size_t first, std::size_t count,
                       ncclDataType_t type, ncclRedOp_t op) {
  std::vector<float> sum(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t hop = 1; hop <= parts.size(); ++hop) {
      const Part& part = parts[(last + hop) % parts.size()];
      sum[i] = rounded(sum[i] + load(part.in, first + i, type), type);
    }
    if (op == ncclAvg) sum[i] /= static_cast<float>(parts.size());
  }
  return sum;
}

}  // namespace

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
    // All are computed before any is written, because in place they are operands too.
    std::vector<std::vector<float>> sums;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      sums.push_back(sum(parts, rank, rank * count, count, type, op));
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
    const std::vector<float> all = sum(parts, 0, 0, count, type, op);
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

ncclResult_t ncclGroupStart() {
  if (fails()) return ncclInternalError;
  return ++open_groups, ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (open_groups == 0) return ncclInvalidUsage;
  if (--open_groups > 0) return ncclSuccess;
  const Exchange calls = std::exchange(grouped, {});
  if (calls.error != ncclSuccess || fails()) return ncclInternalError;
  return calls.comm == nullptr ? ncclSuccess : enqueue(calls);
}

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_to_group(comm, stream, &Exchange::sends,
                      {.peer = peer, .size = count, .from = static_cast<const std::byte*>(in)});
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_to_group(comm, stream, &Exchange::receives,
                      {.peer = peer, .size = count, .to = static_cast<std::byte*>(out)});
}
