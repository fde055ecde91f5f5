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

  /// Makes one of NCCL's calls, of which NCCL does its part in a thread of its own. Before it,
  /// waits for the launch of the process's last call, of whichever communicator: what is launched
  /// on the device has the same order on every rank, or two collectives may each have the room that
  /// the other one waits for.
  /// @param event behind the work that the call launches; empty: the caller waits for it
  void begin(const History& history, const Call& call, Late event = {});

  /// The same, and waits until NCCL has done its part: with a collective, until it is on the
  /// stream.
  void call(const History& history, const Call& call);

  /// Asks again and again, until `done`.
  /// @throws CommError timeout if that takes longer than `patience`
  void wait(const History& history, std::chrono::milliseconds patience,
            const std::function<bool()>& done);

  /// NCCL's state: ncclSuccess or ncclInProgress. @throws CommError for any other, or if aborted
  /// @param passed what is asked about: then a later error of NCCL's is none of it
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
