#include "comm/nccl.h"

#include <atomic>
#include <exception>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "base/device.cuh"
#include "comm/nccl_wire.h"
#include "comm/self.h"

namespace nanofsdp::comm {
namespace {

// The end of a collective. CUDA alone would wait for ever, or take an aborted one for done.
class NcclEvent final : public cuda::CudaEvent {
 public:
  NcclEvent(cudaStream_t stream, std::shared_ptr<NcclWire> wire, const History& history)
      : CudaEvent(stream), wire_(std::move(wire)), history_(history) {}

  bool ready() override {
    if (passed_) return true;
    const bool passed = CudaEvent::ready();
    // In this order: what has passed before an abort is done, whatever NCCL has come to since.
    passed ? wire_->check_not_aborted(history_) : static_cast<void>(wire_->check(history_));
    return passed_ = passed;
  }

  void synchronize() override {
    wire_->wait(history_, wire_->options().timeout, [this] { return ready(); });
  }

  bool tells_more_than_cuda() const override { return true; }

  // Until the device lets go of the operands, however it ends.
  void wait_for_device() { CudaEvent::synchronize(); }

 private:
  const std::shared_ptr<NcclWire> wire_;
  const History history_;  // up to this collective
  std::atomic<bool> passed_{false};
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(Ledger& ledger, std::shared_ptr<NcclWire> wire)
      : ledger_(ledger), wire_(std::move(wire)), rank_(wire_->rank()), size_(wire_->size()) {}

  ~NcclCommunicator() override {
    // A rank in trouble may be alone in leaving, and must not wait for the others.
    if (is_busy() || std::uncaught_exceptions() > 0) wire_->abort(kDestroyed);
    try {
      if (last_) last_->wait_for_device();
      wire_->close(history_);
    } catch (...) {  // nobody is left to hear of it
      wire_->abort(kDestroyed);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // To copy, NCCL needs no more than bytes.
  Event all_gather(Stream& stream, Tensor in, Tensor out, const Call& call) override {
    check_all_gather(*this, in, out);
    return issue(stream, next(Kind::all_gather, in, call), [&](ncclComm_t comm, cudaStream_t on) {
      return wire_->nccl().ncclAllGather(in.raw(), out.raw(), in.bytes(), ncclUint8, comm, on);
    });
  }

  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                       const Call& call) override {
    check_reduce_scatter(*this, in, out);
    Operation operation = next(Kind::reduce_scatter, out, call);
    operation.reduce = op;
    const auto type = in.dtype() == DType::bfloat16 ? ncclBfloat16 : ncclFloat32;
    return issue(stream, operation, [&](ncclComm_t comm, cudaStream_t on) {
      return wire_->nccl().ncclReduceScatter(in.raw(), out.raw(),
                                             static_cast<std::size_t>(out.numel()), type,
                                             op == ReduceOp::sum ? ncclSum : ncclAvg, comm, on);
    });
  }

  Event broadcast(Stream& stream, Tensor x, int root, const Call& call) override {
    check_root(*this, root);
    Operation operation = next(Kind::broadcast, x, call);
    operation.root = root;
    return issue(stream, operation, [&](ncclComm_t comm, cudaStream_t on) {
      return wire_->nccl().ncclBroadcast(x.raw(), x.raw(), x.bytes(), ncclUint8, root, comm, on);
    });
  }

  // A sum that nobody looks at: no rank has it before all have come.
  Event barrier(Stream& stream, const Call& call) override {
    if (nothing_.bytes() == 0) {
      nothing_ = Buffer(ledger_, MemoryClass::communication, sizeof(float), Device::cuda);
    }
    const Tensor x = nothing_.tensor({1});
    return issue(stream, next(Kind::barrier, x, call), [&](ncclComm_t comm, cudaStream_t on) {
      return wire_->nccl().ncclAllReduce(x.raw(), x.raw(), 1, ncclFloat32, ncclSum, comm, on);
    });
  }

  std::unique_ptr<Communicator> split(int color) override {
    append(history_, operation_of(++sequence_, Kind::split, {}, {}));
    return std::make_unique<NcclCommunicator>(ledger_, wire_->split(history_, color));
  }

  void abort(const std::string& reason) noexcept override { wire_->abort(reason); }

 private:
  using Kind = Operation::Kind;

  static constexpr const char* kDestroyed = "its communicator was destroyed";

  bool is_busy() const noexcept {
    try {
      return last_ && !last_->ready();
    } catch (...) {  // aborted, which may take the device a moment
      return true;
    }
  }

  Operation next(Kind kind, const Tensor& chunk, const Call& call) {
    NANOFSDP_CHECK_SHAPE(chunk.device() == Device::cuda, .what = "collective through NCCL",
                         .expected = "memory of the GPU", .got = "memory of the CPU");
    return operation_of(++sequence_, kind, chunk, call);
  }

  template <class Begin>
  Event issue(Stream& stream, const Operation& operation, const Begin& begin) {
    append(history_, operation);
    const cudaStream_t on = cuda::native(stream);
    wire_->call(history_, [&](ncclComm_t comm) { return begin(comm, on); });
    last_ = std::make_shared<NcclEvent>(on, wire_, history_);
    const Event event(last_);
    stream.wait(event);  // so that the stream knows whom to ask; on the device it changes nothing
    return event;
  }

  Ledger& ledger_;
  const std::shared_ptr<NcclWire> wire_;
  const int rank_;
  const int size_;
  std::uint64_t sequence_ = 0;
  History history_{};
  std::shared_ptr<NcclEvent> last_;  // passes after all work so far: a communicator has one stream
  Buffer nothing_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl(Context& context, launch::Store& store,
                                        const NcclOptions& options) {
  const std::string problem = why_not(Device::cuda);
  if (!problem.empty() || context.device != Device::cuda) {
    throw UsageError({.what = "backend nccl",
                      .expected = "ranks on a GPU",
                      .got = problem.empty() ? "ranks on the CPU" : problem,
                      .hint = problem.empty() ? "use --device=cuda" : "use --backend=gloo"});
  }
  if (context.world_size == 1) return make_self();
  return std::make_unique<NcclCommunicator>(context.ledger, open_nccl(context, store, options));
}

}  // namespace nanofsdp::comm
