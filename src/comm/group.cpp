#include "comm/group.h"

#include <utility>

#include "base/check.h"

namespace nanofsdp::comm {
namespace {

class StreamCommunicator final : public Communicator {
 public:
  explicit StreamCommunicator(std::shared_ptr<Group> group)
      : Communicator(group->rank, group->size), group_(std::move(group)) {}

  ~StreamCommunicator() override {
    // All work that waits, or that runs on the CPU, holds the group too.
    if (group_.use_count() > 1) group_->abort("its communicator was destroyed");
    try {
      last_.synchronize();
    } catch (...) {  // the callers that wait for it get the error
    }
  }

  Event run(Stream& stream, const Operation& operation, Tensor in, Tensor out) override {
    NANOFSDP_CHECK(group_->serves(stream.device()), .what = "collective",
                   .expected = "a stream of the CPU", .got = "one of a GPU",
                   .hint = "between GPUs use NCCL");
    NANOFSDP_CHECK_SHAPE(
        operation.kind == Operation::Kind::barrier || in.device() == stream.device(),
        .what = "collective", .expected = "memory of the stream's device",
        .got = "memory of another");
    NANOFSDP_CHECK(stream_ == &stream || last_.ready(), .what = "communicator on two streams",
                   .expected = describe(before_) + " to be over",
                   .got = describe(operation) + " on another stream",
                   .hint = "wait for its event first, or split a communicator for each stream");
    stream_ = &stream;
    before_ = operation;
    stream.enqueue(group_->announce(operation), [group = group_, &stream, operation, in, out] {
      group->run(stream, operation, in, out);
    });
    return last_ = stream.record();
  }

  std::unique_ptr<Communicator> split(int color) override {
    last_.synchronize();  // a split is a call too, on this thread
    return on_streams(group_->split(color));
  }

  void work(int begins, const std::string& at) override { group_->work(begins, at); }

  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  std::shared_ptr<Group> group_;
  const Stream* stream_ = nullptr;  // the stream of the last call,
  Operation before_{};              // the last call itself,
  Event last_;  // and its event, which passes after all work so far, because a communicator has one
                // stream
};

}  // namespace

std::unique_ptr<Communicator> on_streams(std::shared_ptr<Group> group) {
  return std::make_unique<StreamCommunicator>(std::move(group));
}

}  // namespace nanofsdp::comm
