#include "comm/group.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/cuda.h"

namespace nanofsdp::comm {
namespace {

constexpr std::int64_t kCopyGrain = 1 << 16;  // bytes that a thread copies at least

class StreamCommunicator final : public Communicator {
 public:
  explicit StreamCommunicator(std::shared_ptr<Group> group)
      : Communicator(group->rank(), group->size()), group_(std::move(group)) {}

  ~StreamCommunicator() override {
    // Every piece of work that waits or runs on the CPU holds the group too.
    if (group_.use_count() > 1) group_->abort("its communicator was destroyed");
    try {
      last_.synchronize();
    } catch (...) {  // its waiters hear of it
    }
  }

  Event run(Stream& stream, const Collective& collective) override {
    NANOFSDP_CHECK(group_->serves(stream.device()), .what = "collective",
                   .expected = "a stream of the CPU", .got = "one of a GPU",
                   .hint = "between GPUs use NCCL");
    NANOFSDP_CHECK_SHAPE(collective.operation.kind == Operation::Kind::barrier ||
                             collective.in.device() == stream.device(),
                         .what = "collective", .expected = "memory of the stream's device",
                         .got = "memory of another");
    stream.enqueue(group_->announce(collective.operation),
                   [group = group_, &stream, collective] { group->run(stream, collective); });
    return last_ = stream.record();
  }

  std::unique_ptr<Communicator> split(int color) override {
    return on_streams(group_->split(color));
  }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  std::shared_ptr<Group> group_;
  Event last_;  // passes after all work so far: a communicator has one stream
};

}  // namespace

void Group::copy(Stream& stream, const void* from, const Tensor& to) {
  if (to.bytes() == 0 || to.raw() == from) return;
  if constexpr (kCuda) {
    const bool on_gpu = stream.device() == Device::cuda;
    if (on_gpu) return nanofsdp::cuda::copy(stream, to.raw(), from, to.bytes());
  }
  stream.parallel_for(static_cast<std::int64_t>(to.bytes()), kCopyGrain,
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
