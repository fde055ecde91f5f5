#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "comm/communicator.h"

namespace nanofsdp::testing {

/// A wire that takes its time: every collective moves its bytes long after it was issued, so
/// whoever does not wait for it computes with what is not there yet, or overwrites what is still
/// needed.
class LateWire final : public comm::Communicator {
 public:
  explicit LateWire(std::unique_ptr<comm::Communicator> inner,
                    std::chrono::microseconds delay = std::chrono::milliseconds(4))
      : inner_(std::move(inner)), delay_(delay) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Event all_gather(Stream& stream, Tensor in, Tensor out, const comm::Call& call) override {
    return inner_->all_gather(late(stream), in, out, call);
  }
  Event reduce_scatter(Stream& stream, Tensor in, Tensor out, comm::ReduceOp op,
                       const comm::Call& call) override {
    return inner_->reduce_scatter(late(stream), in, out, op, call);
  }
  Event broadcast(Stream& stream, Tensor x, int root, const comm::Call& call) override {
    return inner_->broadcast(late(stream), x, root, call);
  }
  Event barrier(Stream& stream, const comm::Call& call) override {
    return inner_->barrier(late(stream), call);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<LateWire>(inner_->split(color), delay_);
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  Stream& late(Stream& stream) const {
    stream.enqueue([delay = delay_] { std::this_thread::sleep_for(delay); });
    return stream;
  }

  std::unique_ptr<comm::Communicator> inner_;
  std::chrono::microseconds delay_;
};

}  // namespace nanofsdp::testing
