#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/device.cuh"
#include "base/patience.h"
#include "comm/nccl.h"
#include "comm/nccl_library.h"
#include "comm/operation.h"

namespace nanofsdp::comm {

/// @file
/// @brief NCCL's communicators in their non-blocking form. Every failure of NCCL becomes a
/// CommError.

/// The state that all communicators of a process share: if a rank is lost, it ends them all.
struct NcclFabric;

/// A communicator of NCCL. A call is begun, and then its state is asked for again and again. Three
/// threads use it: one issues calls, one waits for events, and one may abort. Errors name the last
/// call of `history`. If the history is empty, they are about the making of the group.
class NcclWire {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t)>;
  using Late = std::weak_ptr<nanofsdp::cuda::LateEvent>;

  explicit NcclWire(std::shared_ptr<NcclFabric> fabric);
  ~NcclWire();

  /// Makes one of NCCL's calls. NCCL launches its work from a thread of its own. So this function
  /// first waits until the work of the process's last call has been launched, by whichever
  /// communicator. Then all ranks launch their collectives in the same order. In different orders,
  /// two collectives could each hold the part of the device that the other one needs.
  /// @param event passes after the work of this call. If it is empty, the caller waits for the
  ///   launch
  void begin(const History& history, const Call& call, Late event = {});

  /// Makes the call, and waits until NCCL has launched the work, so that it is on the stream.
  void call(const History& history, const Call& call);

  /// Calls `done` again and again until it returns true.
  /// @throws CommError timeout if that takes longer than `patience`
  void wait(const History& history, std::chrono::milliseconds patience,
            const std::function<bool()>& done);

  /// NCCL's state: ncclSuccess or ncclInProgress. @throws CommError for any other, or if aborted
  /// @param passed whether the work that the caller asks about is done. Then a later error of
  ///   NCCL's does not concern it
  ncclResult_t check(const History& history, bool passed = false);

  /// Makes the group of the ranks with this color. Waits until all have come.
  std::shared_ptr<NcclWire> split(const History& history, int color);

  /// Call it when this rank needs the group no more and all its work is done. Bytes that the rank
  /// has sent may still be on their way: NCCL delivers them, and waits for the other ranks.
  void close(const History& history);

  /// Ends all work on the device, and all waiting. Any thread may call it.
  void abort(const std::string& reason) noexcept;

  /// Asks NCCL for a number: `what` is ncclCommUserRank or ncclCommCount.
  /// @throws CommError setup if NCCL does not say it
  int ask(decltype(NcclLibrary::ncclCommCount) NcclLibrary::*what);
  /// See Communicator::work().
  void work(int begins, const std::string& at);
  const NcclOptions& options() const;
  const NcclLibrary& nccl() const;

 private:
  friend std::shared_ptr<NcclWire> open_nccl(Context&, launch::Store&, const NcclOptions&);

  CommError error(CommError::Kind kind, const History& history, const std::string& what) const;
  void throw_if_aborted(const History& history) const;
  [[noreturn]] void fail(const History& history, ncclResult_t result);
  Patience give_up(const History& history, std::chrono::milliseconds patience);

  const std::shared_ptr<NcclFabric> fabric_;
  std::mutex mutex_;  // guards what follows
  ncclComm_t comm_ = nullptr;
  std::string aborted_;  // the reason
};

/// Makes the group of all ranks of the run. Waits until all have come. @throws CommError setup
std::shared_ptr<NcclWire> open_nccl(Context& context, launch::Store& store,
                                    const NcclOptions& options);

}  // namespace nanofsdp::comm
