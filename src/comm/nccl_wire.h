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
/// @brief NCCL's own communicators, which do not block; with their ways of failing brought to one.

/// What the communicators of one process share: the news that a rank is lost, which ends them all.
struct NcclFabric;

/// A communicator of NCCL's: a call to it is begun, and then asked after. Used by the thread that
/// issues, by one that waits for an event, and by one that aborts. Errors name the call that is the
/// last of `history`; without one, they are about the making of the group.
class NcclWire {
 public:
  using Call = std::function<ncclResult_t(ncclComm_t)>;
  using Late = std::weak_ptr<nanofsdp::cuda::LateEvent>;

  explicit NcclWire(std::shared_ptr<NcclFabric> fabric);
  ~NcclWire();

  /// Makes one of NCCL's calls. NCCL launches the work of the call from a thread of its own. So
  /// this first waits until the work of the process's last call has been launched, whichever
  /// communicator made that. Then all ranks launch their collectives in one order. In different
  /// orders, two collectives could each hold the part of the device that the other one needs.
  /// @param event passes after the work of this call. Empty: the caller waits for the launch
  void begin(const History& history, const Call& call, Late event = {});

  /// The same, and waits until NCCL has launched the work, so that it is on the stream.
  void call(const History& history, const Call& call);

  /// Waits until `done` returns true, and asks it again and again.
  /// @throws CommError timeout if that takes longer than `patience`
  void wait(const History& history, std::chrono::milliseconds patience,
            const std::function<bool()>& done);

  /// NCCL's state: ncclSuccess or ncclInProgress. @throws CommError for any other, or if aborted
  /// @param passed whether the work that the caller asks about is done. Then a later error of
  /// NCCL's
  ///   does not concern it
  ncclResult_t check(const History& history, bool passed = false);

  /// The ranks with this color. Waits until all have come.
  std::shared_ptr<NcclWire> split(const History& history, int color);

  /// When this rank needs no more and all its work is done. What it has sent may still be on its
  /// way: NCCL sees it off, and waits for the others.
  void close(const History& history);

  /// Ends what is on the device, and all waiting. From any thread.
  void abort(const std::string& reason) noexcept;

  /// ncclCommUserRank or ncclCommCount.
  int ask(decltype(NcclLibrary::ncclCommCount) NcclLibrary::*what) const;
  /// As Communicator::work().
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
  std::mutex mutex_;  // of:
  ncclComm_t comm_ = nullptr;
  std::string aborted_;  // why
};

/// All ranks of the run. Waits until all have come. @throws CommError setup
std::shared_ptr<NcclWire> open_nccl(Context& context, launch::Store& store,
                                    const NcclOptions& options);

}  // namespace nanofsdp::comm
