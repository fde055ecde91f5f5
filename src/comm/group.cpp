#include "comm/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace nanofsdp::comm {
namespace {

void check_cpu(const Tensor& x, const char* name) {
  NANOFSDP_CHECK_SHAPE(x.device() == Device::cpu, .what = name, .expected = "memory of the CPU",
                       .got = "memory of a GPU", .hint = "use the nccl backend");
}

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
    check_cpu(out, "all_gather: out");
    Operation operation = next(Operation::Kind::all_gather, call);
    operation.count = in.numel();
    operation.dtype = in.dtype();
    return enqueue(stream,
                   [group = group_, operation, in, out] { group->all_gather(operation, in, out); });
  }

  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                       const Call& call) override {
    check_reduce_scatter(*this, in, out);
    check_cpu(in, "reduce_scatter: in");
    Operation operation = next(Operation::Kind::reduce_scatter, call);
    operation.count = out.numel();
    operation.dtype = out.dtype();
    operation.reduce = op;
    return enqueue(stream, [group = group_, operation, in, out] {
      group->reduce_scatter(operation, in, out);
    });
  }

  Event broadcast(Stream& stream, Tensor x, int root, const Call& call) override {
    NANOFSDP_CHECK_SHAPE(root >= 0 && root < size(), .what = "broadcast: root",
                         .expected = fmt::format("a rank below {}", size()),
                         .got = fmt::format("{}", root));
    check_cpu(x, "broadcast: x");
    Operation operation = next(Operation::Kind::broadcast, call);
    operation.count = x.numel();
    operation.dtype = x.dtype();
    operation.root = root;
    return enqueue(stream, [group = group_, operation, x] { group->broadcast(operation, x); });
  }

  Event barrier(Stream& stream, const Call& call) override {
    const Operation operation = next(Operation::Kind::barrier, call);
    return enqueue(stream, [group = group_, operation] { group->barrier(operation); });
  }

  std::unique_ptr<Communicator> split(int color) override {
    return on_streams(group_->split(next(Operation::Kind::split, {}), color));
  }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  Operation next(Operation::Kind kind, const Call& call) {
    Operation operation{.sequence = ++sequence_, .kind = kind};
    // The last character stays 0.
    std::copy_n(call.unit.begin(), std::min(call.unit.size(), operation.unit.size() - 1),
                operation.unit.begin());
    return operation;
  }

  template <class Work>
  Event enqueue(Stream& stream, Work&& work) {
    stream.enqueue(std::forward<Work>(work));
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
