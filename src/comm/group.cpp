#include "comm/group.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/cuda.h"

namespace nanofsdp::comm {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // bytes that a thread copies at least

class StreamCommunicator final : public Communicator {
 public:
  explicit StreamCommunicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  ~StreamCommunicator() override {
    // Every piece of work that waits or runs on the CPU holds the group too.
    if (group_.use_count() > 1) group_->abort("its communicator was destroyed");
    try {
      last_.synchronize();
    } catch (...) {  // its waiters hear of it
    }
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }

  Event all_gather(Stream& stream, Tensor in, Tensor out, const Call& call) override {
    check_all_gather(*this, in, out);
    return enqueue(stream, next(stream, Kind::all_gather, in, call),
                   [in, out](Group& group, Stream& stream, const Operation& o) {
                     group.all_gather(stream, o, in, out);
                   });
  }

  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                       const Call& call) override {
    check_reduce_scatter(*this, in, out);
    Operation operation = next(stream, Kind::reduce_scatter, out, call);
    operation.reduce = op;
    return enqueue(stream, operation, [in, out](Group& group, Stream& stream, const Operation& o) {
      group.reduce_scatter(stream, o, in, out);
    });
  }

  Event broadcast(Stream& stream, Tensor x, int root, const Call& call) override {
    check_root(*this, root);
    Operation operation = next(stream, Kind::broadcast, x, call);
    operation.root = root;
    return enqueue(stream, operation, [x](Group& group, Stream& stream, const Operation& o) {
      group.broadcast(stream, o, x);
    });
  }

  Event barrier(Stream& stream, const Call& call) override {
    return enqueue(
        stream, next(stream, Kind::barrier, {}, call),
        [](Group& group, Stream& stream, const Operation& o) { group.barrier(stream, o); });
  }

  std::unique_ptr<Communicator> split(int color) override {
    return on_streams(group_->split(operation_of(++sequence_, Kind::split, {}, {}), color));
  }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  using Kind = Operation::Kind;

  Operation next(const Stream& stream, Kind kind, const Tensor& chunk, const Call& call) {
    NANOFSDP_CHECK(group_->serves(stream.device()), .what = "collective",
                   .expected = "a stream of the CPU", .got = "one of a GPU",
                   .hint = "between GPUs use NCCL");
    NANOFSDP_CHECK_SHAPE(kind == Kind::barrier || chunk.device() == stream.device(),
                         .what = "collective", .expected = "memory of the stream's device",
                         .got = "memory of another");
    return operation_of(++sequence_, kind, chunk, call);
  }

  template <class Work>
  Event enqueue(Stream& stream, const Operation& operation, const Work& work) {
    stream.enqueue(group_->announce(operation),
                   [group = group_, &stream, operation, work] { work(*group, stream, operation); });
    return last_ = stream.record();
  }

  std::shared_ptr<Group> group_;
  std::uint64_t sequence_ = 0;
  Event last_;  // passes after all work so far: a communicator has one stream
};

}  // namespace

void Group::copy(Stream& stream, const void* from, const Tensor& to) {
  if (to.bytes() == 0 || to.raw() == from) return;
  if constexpr (kCuda) {
    if (stream.device() == Device::cuda) return cuda::copy(stream, to.raw(), from, to.bytes());
  }
  stream.parallel_for(static_cast<std::int64_t>(to.bytes()), kGrain,
                      [&](std::int64_t begin, std::int64_t end) {
                        std::memcpy(static_cast<std::byte*>(to.raw()) + begin,
                                    static_cast<const std::byte*>(from) + begin,
                                    static_cast<std::size_t>(end - begin));
                      });
}

std::unique_ptr<Communicator> on_streams(std::shared_ptr<Group> group) {
  return std::make_unique<StreamCommunicator>(std::move(group));
}

}  // namespace nanofsdp::comm
