#include "comm/nccl.h"

#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/check.h"
#include "base/device.cuh"
#include "comm/local.h"
#include "comm/nccl_wire.h"
#include "comm/sum.h"

namespace nanofsdp::comm {
namespace {

// The end of a collective. A CUDA event alone would wait for ever, or take an aborted collective
// for a finished one.
class NcclEvent final : public nanofsdp::cuda::LateEvent {
 public:
  NcclEvent(cudaStream_t stream, std::shared_ptr<NcclWire> wire, const History& history)
      : LateEvent(stream), wire_(std::move(wire)), history_(history) {}

  bool ready() override {
    if (passed_) return true;
    const bool passed = LateEvent::ready();
    // The order matters: work that passed before an abort is done, whatever error NCCL has had
    // since.
    wire_->check(history_, passed);
    return passed_ = passed;
  }

  void synchronize() override {
    wire_->wait(history_, wire_->options().timeout, [this] { return ready(); });
  }

  // The first collective between two ranks connects them, so this waits longer.
  void wait_for_launch() override {
    wire_->wait(history_, wire_->options().connect_timeout, [this] { return is_on_stream(); });
  }

 private:
  bool is_launched() override { return wire_->check(history_) == ncclSuccess; }

  const std::shared_ptr<NcclWire> wire_;
  const History history_;  // the calls up to this collective
  std::atomic<bool> passed_{false};
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Ledger& ledger, std::shared_ptr<NcclWire> wire)
      : Communicator(wire->ask(&NcclLibrary::ncclCommUserRank),
                     wire->ask(&NcclLibrary::ncclCommCount)),
        ledger_(ledger),
        wire_(std::move(wire)),
        scratch_(ledger, MemoryClass::communication, 0, Device::cuda) {}

  ~NcclCommunicator() override {
    // If the rank has failed, it may be the only one that leaves, and must not wait for the others.
    try {
      if (std::uncaught_exceptions() > 0 || (last_ && !last_->ready())) wire_->abort(kDestroyed);
    } catch (...) {  // aborted; the device may take a moment for it
    }
    try {
      if (last_) last_->wait_for_device();
      wire_->close(history_);
    } catch (...) {  // no caller is left for this error
      wire_->abort(kDestroyed);
    }
  }

  Event run(Stream& stream, const Operation& operation, Tensor in, Tensor out) override {
    NANOFSDP_CHECK_SHAPE(operation.kind == Kind::barrier || in.device() == Device::cuda,
                         .what = "collective through NCCL", .expected = "memory of the GPU",
                         .got = "memory of the CPU");
    append(history_, operation);
    const cudaStream_t on = nanofsdp::cuda::native(stream);
    if (operation.kind == Kind::barrier) need_scratch(sizeof(float));
    const auto event = std::make_shared<NcclEvent>(on, wire_, history_);
    const auto call = [&](ncclComm_t comm) { return begin(operation, in, out, comm, on); };
    const bool sums = operation.kind == Kind::reduce_scatter;
    if (sums && wire_->options().reduction == Reduction::ordered) {
      sum_in_turns(stream, operation.reduce, in, out, on);
    } else if (in.dtype() == out.dtype()) {
      wire_->begin(history_, call, event);
    } else {  // the ring leaves its sum in this rank's chunk of `in`, from where it is widened
      wire_->call(history_, call);
      sum_in_rank_order(stream, std::array{own_chunk(in).raw()}, in.dtype(), out, ReduceOp::sum);
    }
    nanofsdp::cuda::follow(stream, last_ = event);
    return Event(event);
  }

  std::unique_ptr<Communicator> split(int color) override {
    append(history_, {.kind = Kind::split});
    return std::make_unique<NcclCommunicator>(ledger_, wire_->split(history_, color));
  }

  void work(int begins, const std::string& at) override { wire_->work(begins, at); }
  void abort(const std::string& reason) noexcept override { wire_->abort(reason); }

 private:
  using Kind = Operation::Kind;

  static constexpr const char* kDestroyed = "its communicator was destroyed";

  // Work in flight still uses the old scratch memory.
  void need_scratch(std::uint64_t bytes) {
    if (bytes > scratch_.bytes() && last_) last_->synchronize();
    scratch_.grow(bytes);
  }

  //! [sum_in_turns]
  // Each rank sends every peer the peer's chunk, and adds those that it gets to its own. A long
  // chunk is reduced in several turns.
  void sum_in_turns(Stream& stream, ReduceOp op, const Tensor& in, const Tensor& out,
                    cudaStream_t on) {
    const auto n = out.numel(), each = static_cast<std::int64_t>(size_of(in.dtype()));
    const std::int64_t longest = nccl_window_bytes(size()) / each;
    need_scratch(nccl_scratch_bytes(size(), n * each));
    std::vector<const void*> addends(static_cast<std::size_t>(size()));
    for (std::int64_t begin = 0; begin < n; begin += longest) {
      const std::int64_t count = std::min(longest, n - begin);
      wire_->call(history_, [&, &nccl = wire_->nccl()](ncclComm_t comm) {
        nccl.ncclGroupStart();  // ncclGroupEnd reports errors up to itself
        for (int peer = 0, place = 0; peer < size(); ++peer) {
          const Tensor part = in.slice(peer * n + begin, count);
          addends[peer] = part.raw();
          if (peer == rank()) continue;
          const Tensor theirs = scratch_.tensor({count}, in.dtype(), place++ * part.bytes());
          addends[peer] = theirs.raw();
          nccl.ncclSend(part.raw(), part.bytes(), ncclUint8, peer, comm, on);
          nccl.ncclRecv(theirs.raw(), part.bytes(), ncclUint8, peer, comm, on);
        }
        return nccl.ncclGroupEnd();
      });
      sum_in_rank_order(stream, addends, in.dtype(), out.slice(begin, count), op);
    }
  }
  //! [sum_in_turns]

  ncclResult_t begin(const Operation& operation, const Tensor& in, const Tensor& out,
                     ncclComm_t comm, cudaStream_t on) {
    const NcclLibrary& nccl = wire_->nccl();
    if (operation.kind == Kind::barrier) {  // no rank has the sum before all have come
      void* const x = scratch_.tensor({1}).raw();
      return nccl.ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, comm, on);
    }
    if (operation.kind == Kind::reduce_scatter) {
      const auto type = in.dtype() == DType::bfloat16 ? ncclBfloat16 : ncclFloat32;
      const Tensor sum = in.dtype() == out.dtype() ? out : own_chunk(in);
      return nccl.ncclReduceScatter(in.raw(), sum.raw(), static_cast<std::size_t>(out.numel()),
                                    type, operation.reduce == ReduceOp::sum ? ncclSum : ncclAvg,
                                    comm, on);
    }
    // To copy, NCCL only needs bytes.
    if (operation.kind == Kind::all_gather)
      return nccl.ncclAllGather(in.raw(), out.raw(), in.bytes(), ncclUint8, comm, on);
    return nccl.ncclBroadcast(in.raw(), out.raw(), in.bytes(), ncclUint8, operation.root, comm, on);
  }

  Ledger& ledger_;
  const std::shared_ptr<NcclWire> wire_;
  History history_{};
  // Passes after all work so far, because a communicator has one stream.
  std::shared_ptr<NcclEvent> last_;
  Buffer scratch_;  // chunks of peers, which are summed here; or a barrier's operand
};

}  // namespace

std::unique_ptr<Communicator> make_nccl(Context& context, launch::Store& store,
                                        const NcclOptions& options) {
  NANOFSDP_REFUSE_IF(context.device != Device::cuda, .what = "backend nccl",
                     .expected = "ranks on a GPU", .got = "ranks on the CPU");
  if (context.world_size == 1) return make_self();
  return std::make_unique<NcclCommunicator>(context.ledger, open_nccl(context, store, options));
}

}  // namespace nanofsdp::comm
