#include "comm/group.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace nanofsdp::comm {
namespace {

class StreamCommunicator final : public Communicator {
 public:
  explicit StreamCommunicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  ~StreamCommunicator() override {
    // Every piece of work that waits or runs on a stream holds the group too.
    if (group_.use_count() == 1) return;
    group_->abort("its communicator was destroyed");
    try {
      last_.synchronize();
    } catch (...) {  // its waiters hear of it
    }
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }

  Event all_gather(Stream& stream, Tensor in, Tensor out, const Call& call) override {
    check_all_gather(*this, in, out);
    return enqueue(stream, next(Kind::all_gather, in, call),
                   [in, out](Group& group, const Operation& o) { group.all_gather(o, in, out); });
  }

  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                       const Call& call) override {
    check_reduce_scatter(*this, in, out);
    Operation operation = next(Kind::reduce_scatter, out, call);
    operation.reduce = op;
    return enqueue(stream, operation, [in, out](Group& group, const Operation& o) {
      group.reduce_scatter(o, in, out);
    });
  }

  Event broadcast(Stream& stream, Tensor x, int root, const Call& call) override {
    NANOFSDP_CHECK_SHAPE(root >= 0 && root < size(), .what = "broadcast: root",
                         .expected = fmt::format("a rank below {}", size()),
                         .got = fmt::format("{}", root));
    Operation operation = next(Kind::broadcast, x, call);
    operation.root = root;
    return enqueue(stream, operation,
                   [x](Group& group, const Operation& o) { group.broadcast(o, x); });
  }

  Event barrier(Stream& stream, const Call& call) override {
    return enqueue(stream, next(Kind::barrier, {}, call),
                   [](Group& group, const Operation& o) { group.barrier(o); });
  }

  std::unique_ptr<Communicator> split(int color) override {
    return on_streams(group_->split(next(Kind::split, {}, {}), color));
  }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  using Kind = Operation::Kind;

  Operation next(Kind kind, const Tensor& chunk, const Call& call) {
    NANOFSDP_CHECK_SHAPE(chunk.device() == Device::cpu, .what = "collective on the CPU",
                         .expected = "memory of the CPU", .got = "memory of a GPU");
    Operation operation{
        .sequence = ++sequence_, .count = chunk.numel(), .kind = kind, .dtype = chunk.dtype()};
    // The last character stays 0.
    call.unit.copy(operation.unit.data(), operation.unit.size() - 1);
    return operation;
  }

  template <class Work>
  Event enqueue(Stream& stream, const Operation& operation, const Work& work) {
    stream.enqueue([group = group_, operation, work] { work(*group, operation); });
    return last_ = stream.record();
  }

  std::shared_ptr<Group> group_;
  std::uint64_t sequence_ = 0;
  Event last_;  // passes after all work so far: a communicator has one stream
};

}  // namespace

std::unique_ptr<Communicator> on_streams(std::shared_ptr<Group> group) {
  return std::make_unique<StreamCommunicator>(std::move(group));
}

}  // namespace nanofsdp::comm
