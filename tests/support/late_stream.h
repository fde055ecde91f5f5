#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/device.h"

namespace nanofsdp::testing {

/// A compute stream that is behind its host, as a GPU's is: a thread of its own does all work
/// later. If code does not order its reads and writes by events, its results are wrong.
class LateStream final : public Stream {
 public:
  void enqueue(std::function<void()> work) override {
    inner_->enqueue([work = std::move(work)] {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      work();
    });
  }
  Event record() override { return inner_->record(); }
  void wait(const Event& event) override { inner_->wait(event); }
  void synchronize() override { inner_->synchronize(); }

 private:
  std::unique_ptr<Stream> inner_ = make_communication_stream(Device::cpu);
};

}  // namespace nanofsdp::testing
