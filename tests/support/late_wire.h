#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "comm/operation.h"

namespace nanofsdp::testing {

/// A communicator that is late: every collective moves its bytes long after it was issued. If code
/// does not wait for it, it computes with data that has not arrived, or overwrites data that is
/// still needed.
class LateWire final : public comm::Communicator {
 public:
  explicit LateWire(std::unique_ptr<comm::Communicator> inner,
                    std::chrono::microseconds delay = std::chrono::milliseconds(4))
      : Communicator(inner->rank(), inner->size()), inner_(std::move(inner)), delay_(delay) {}

  Event run(Stream& stream, const comm::Operation& operation, Tensor in, Tensor out) override {
    stream.enqueue([delay = delay_] { std::this_thread::sleep_for(delay); });
    return inner_->run(stream, operation, in, out);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<LateWire>(inner_->split(color), delay_);
  }
  void work(int begins, const std::string& at) override { inner_->work(begins, at); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }

 private:
  std::unique_ptr<comm::Communicator> inner_;
  std::chrono::microseconds delay_;
};

}  // namespace nanofsdp::testing
