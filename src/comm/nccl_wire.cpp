#include "comm/nccl_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

namespace nanofsdp::comm {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

struct NcclFabric {
  const NcclLibrary nccl;
  launch::Store& store;
  const NcclOptions options;
  NcclWire::Late launching;  // event of the last call; empty if it is launched or its group is gone
  std::mutex mutex;          // guards what follows
  std::vector<NcclWire*> wires;

  NcclFabric(launch::Store& the_store, const NcclOptions& the_options)
      : store(the_store), options(the_options) {
    store.on_loss([this](const std::string& what) { abort(what); });
  }
  ~NcclFabric() { store.on_loss({}); }
  // If one group gives up, work of the others stays in flight, and CUDA waits for it before it
  // frees memory.
  void abort(const std::string& what) {
    const std::lock_guard lock(mutex);
    for (NcclWire* wire : wires) wire->abort(what);
  }
};

namespace {

constexpr milliseconds kFarewell = 10s;  // time for the others to leave, too

std::string in_words(const NcclLibrary& nccl, ncclResult_t result, ncclComm_t comm) {
  const std::string details = nccl.ncclGetLastError(comm);
  const std::string line = details.substr(0, details.find('\n'));
  return fmt::format("NCCL: {}{}{}", nccl.ncclGetErrorString(result), line.empty() ? "" : ": ",
                     line);
}

// Sets the variables that NCCL reads in its first call, except those that the user has set.
void set_environment(int rank, const std::string& interface, bool share_gpu) {
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), /*overwrite=*/0);
  };
  if (!interface.empty()) set("NCCL_SOCKET_IFNAME", interface);
  if (!share_gpu) return;
  // NCCL refuses two ranks of one host on a GPU.
  set("NCCL_HOSTID", fmt::format("nanofsdp-rank{}", rank));
  set("NCCL_MULTI_RANK_GPU_ENABLE", "1");  // the same permission for NCCL 2.30 and later
  set("NCCL_SOCKET_IFNAME", "lo");
  set("NCCL_NET", "Socket");
  for (const char* unheard_of : {"NCCL_MNNVL_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_RAS_ENABLE"})
    set(unheard_of, "0");     // NCCL must not use these between such hosts
  set("NCCL_MAX_CTAS", "2");  // the kernels of all ranks must fit at the same time
}

// Rank 0 makes the id of the run, and the store gives it to the other ranks.
ncclUniqueId agree_on_id(NcclFabric& fabric) {
  launch::Store& store = fabric.store;
  ncclUniqueId id{};
  if (store.rank() == 0) {
    const ncclResult_t result = fabric.nccl.ncclGetUniqueId(&id);
    if (result != ncclSuccess) throw setup_error(0, in_words(fabric.nccl, result, nullptr));
    store.set("nccl/id", std::string(id.internal, sizeof id.internal));
  }
  const auto value = store.get("nccl/id", fabric.options.connect_timeout);
  if (!value || value->size() != sizeof id.internal)
    throw setup_error(store.rank(), fmt::format("no word from rank 0 in {} ms",
                                                fabric.options.connect_timeout.count()));
  std::ranges::copy(*value, id.internal);
  return id;
}

}  // namespace

NcclWire::NcclWire(std::shared_ptr<NcclFabric> fabric) : fabric_(std::move(fabric)) {
  const std::lock_guard lock(fabric_->mutex);
  fabric_->wires.push_back(this);
  aborted_ = fabric_->store.loss(0ms);  // a later loss finds this wire in the list
}

NcclWire::~NcclWire() {
  const std::lock_guard lock(fabric_->mutex);
  std::erase(fabric_->wires, this);
  nccl().ncclCommAbort(comm_);  // null if it was closed or aborted
}

void NcclWire::begin(const History& history, const Call& call, Late event) {
  if (const auto last = std::exchange(fabric_->launching, event).lock()) last->wait_for_launch();
  std::unique_lock lock(mutex_);
  throw_if_aborted(history);
  const ncclResult_t result = call(comm_);
  lock.unlock();
  if (result != ncclSuccess && result != ncclInProgress) fail(history, result);
}

void NcclWire::call(const History& history, const Call& call) {
  begin(history, call);
  wait(history, options().connect_timeout, [&] { return check(history) == ncclSuccess; });
}

void NcclWire::wait(const History& history, milliseconds patience,
                    const std::function<bool()>& done) {
  for (Patience soon(1ms), rest(patience); !done();) {
    if (rest.is_over()) rest = give_up(history, patience);
    // A collective that is about to reach the stream needs only a moment.
    soon.is_over() ? std::this_thread::sleep_for(50us) : std::this_thread::yield();
  }
}

ncclResult_t NcclWire::check(const History& history, bool passed) {
  std::unique_lock lock(mutex_);
  throw_if_aborted(history);
  if (passed || comm_ == nullptr) return ncclSuccess;  // it was closed after all its work was done
  ncclResult_t state = ncclSuccess;
  if (const auto refused = nccl().ncclCommGetAsyncError(comm_, &state)) state = refused;
  lock.unlock();
  if (state != ncclSuccess && state != ncclInProgress) fail(history, state);
  return state;
}

std::shared_ptr<NcclWire> NcclWire::split(const History& history, int color) {
  auto child = std::make_shared<NcclWire>(fabric_);
  // The groups do not share their resources (splitShare), because NCCL does not allow calls at the
  // same time on communicators that do. NCCL's colors are not negative. Two of our colors that
  // differ only in the sign bit become one.
  call(history, [&](ncclComm_t comm) {  // keeps the order of the ranks
    return nccl().ncclCommSplit(comm, color & 0x7fffffff, /*key=*/0, &child->comm_, nullptr);
  });
  // Waits until the new group is ready.
  child->call(history, [](ncclComm_t) { return ncclSuccess; });
  return child;
}

void NcclWire::close(const History& history) {
  begin(history, [&](ncclComm_t comm) { return nccl().ncclCommFinalize(comm); });
  wait(history, kFarewell, [&] { return check(history) == ncclSuccess; });
  const std::lock_guard lock(mutex_);
  nccl().ncclCommDestroy(std::exchange(comm_, nullptr));
}

void NcclWire::abort(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (!aborted_.empty()) return;
  aborted_ = reason;
  nccl().ncclCommAbort(std::exchange(comm_, nullptr));
}

int NcclWire::ask(decltype(NcclLibrary::ncclCommCount) NcclLibrary::*what) {
  int answer = 0;
  call({}, [&](ncclComm_t comm) { return (nccl().*what)(comm, &answer); });
  return answer;
}

const NcclOptions& NcclWire::options() const { return fabric_->options; }

const NcclLibrary& NcclWire::nccl() const { return fabric_->nccl; }

// The error of this rank; `what` follows the words "rank 2".
CommError NcclWire::error(CommError::Kind kind, const History& history,
                          const std::string& what) const {
  const int rank = fabric_->store.rank();
  if (history.back().sequence > 0) return operation_error(kind, rank, history, what);
  return setup_error(rank, "it " + what, kind);
}

void NcclWire::work(int begins, const std::string& at) { fabric_->store.work(begins, at); }

void NcclWire::throw_if_aborted(const History& history) const {
  if (!aborted_.empty()) throw error(CommError::Kind::aborted, history, "gave up: " + aborted_);
}

void NcclWire::fail(const History& history, ncclResult_t result) {
  const bool others = result == ncclRemoteError || result == ncclSystemError;
  std::unique_lock lock(mutex_);
  throw_if_aborted(history);
  const std::string words = in_words(nccl(), result, comm_);
  lock.unlock();
  abort(words);
  // The store knows which rank was lost first and why, or will soon know it.
  const std::string cause = others ? fabric_->store.loss(2s) : "";
  if (!cause.empty()) throw error(CommError::Kind::aborted, history, "gave up: " + cause);
  const CommError own = error(others ? CommError::Kind::peer_lost : CommError::Kind::failed,
                              history, "heard from " + words);
  // The other groups of this rank may wait for ranks that wait for the cause.
  others ? fabric_->abort(words) : fabric_->store.fail(own.what());
  throw own;
}

Patience NcclWire::give_up(const History& history, milliseconds patience) {
  Patience rest(patience - fabric_->store.idle());  // asks the ranks before this rank gives up
  if (!rest.is_over()) return rest;
  fabric_->abort("it waited in vain");
  throw error(CommError::Kind::timeout, history,
              fmt::format("waited {} ms in vain for the others", patience.count()));
}

std::shared_ptr<NcclWire> open_nccl(Context& context, launch::Store& store,
                                    const NcclOptions& options) {
  set_environment(context.rank, store.interface(), options.share_gpu);
  auto fabric = std::make_shared<NcclFabric>(store, options);
  auto wire = std::make_shared<NcclWire>(fabric);
  const ncclUniqueId id = agree_on_id(*fabric);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  wire->call({}, [&](ncclComm_t) {
    return fabric->nccl.ncclCommInitRankConfig(&wire->comm_, context.world_size, id, context.rank,
                                               &config);
  });
  return wire;
}

}  // namespace nanofsdp::comm
