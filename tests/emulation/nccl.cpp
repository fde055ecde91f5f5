#include <cstdio>
#include <cstring>
#include <string>

#include "faults.h"
#include "nccl_state.h"

std::mutex emulation::mutex;
constinit thread_local int emulation::asked = 0;

// Begins every call here; ncclCommGetAsyncError continues it.
ncclResult_t emulation::begin(ncclComm_t comm, std::function<bool()> call) {
  const std::lock_guard lock(mutex);
  static thread_local std::shared_ptr<State> last;
  State& state = *comm->state;
  // The last call has not been asked for until its end.
  if (state.begun) return ncclInvalidArgument;
  if (last && last->begun) return ncclInvalidUsage;  // the order of launches would be random
  last = comm->state;
  state.begun = std::move(call);
  state.asked = 0;
  return ncclInProgress;
}

using namespace emulation;

namespace {

std::map<std::string, std::shared_ptr<Group>> groups;
int ids = 0;

ncclComm_t make(std::shared_ptr<Group> group, int rank) {
  ++alive;
  ++group->joined;
  return new ncclComm{std::make_shared<State>(State{.group = std::move(group), .rank = rank})};
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited" : "emulated error";
}
const char* ncclGetLastError(ncclComm_t) { return "a peer is gone\n and more lines"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (fails()) return ncclInternalError;
  const std::lock_guard lock(mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  std::snprintf(id->internal, sizeof id->internal, "id %d", ++ids);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (fails()) return ncclInternalError;
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
  if (fails()) return ncclInternalError;
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
  ++emulation::asked;
  std::unique_lock lock(mutex);
  State& state = *comm->state;
  const bool waits = state.begun || state.done < state.calls;
  if (waits && state.group->broken) return *result = ncclRemoteError, ncclSuccess;
  *result = ncclInProgress;
  if (state.begun) {
    if (++state.asked < 2) return ncclSuccess;
    const auto call = state.begun;
    lock.unlock();  // the call takes the lock, and so does its work on a stream
    const bool taken = call();
    lock.lock();
    if (!taken) return ncclSuccess;
    state.begun = nullptr;
  }
  return *result = fails() ? ncclInternalError : ncclSuccess, ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  if (fails()) return ncclInternalError;
  return *rank = comm->state->rank, ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* size) {
  if (fails()) return ncclInternalError;
  return *size = static_cast<int>(comm->state->group->size), ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (fails()) return ncclInternalError;
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
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  --alive;
  return delete comm, fails() ? ncclInternalError : ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const std::lock_guard lock(mutex);
  comm->state->aborted = comm->state->group->broken = true;
  comm->state->begun = nullptr;
  --alive;
  return delete comm, fails() ? ncclInternalError : ncclSuccess;
}
