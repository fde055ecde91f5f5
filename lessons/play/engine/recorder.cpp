#include "engine/recorder.h"

#include <memory>
#include <utility>

namespace nanofsdp::play {

// A stream of the rank. It calls the recorder whenever work is issued on it.
class Recorder::Watched final : public Stream {
 public:
  Watched(Recorder& recorder, std::unique_ptr<Stream> inner)
      : recorder_(recorder), inner_(std::move(inner)) {}

  Stream* inner() const { return inner_.get(); }

  Device device() const override { return inner_->device(); }
  int threads() const override { return inner_->threads(); }
  void enqueue(std::function<void()> work) override {
    recorder_.look();
    inner_->enqueue(std::move(work));
  }
  void enqueue(const Cost& cost, std::function<void()> work) override {
    recorder_.look();
    inner_->enqueue(cost, std::move(work));
  }
  void note(double& when) override {
    inner_->note(when);
    recorder_.look();
  }
  void allocated(std::uint64_t bytes) override { inner_->allocated(bytes); }
  Event record() override { return inner_->record(); }
  void wait(const Event& event) override {
    recorder_.look();
    inner_->wait(event);
  }
  void synchronize() override { inner_->synchronize(); }

 private:
  void parallel_ranges(std::int64_t n, std::int64_t grain, const RangeBody& body) override {
    inner_->parallel_for(n, grain, body);
  }

  Recorder& recorder_;
  std::unique_ptr<Stream> inner_;
};

Recorder::Recorder(Context& context) : context_(context) {
  compute_ = context.compute.get();
  for (auto* stream : {&context.compute, &context.gather, &context.reduce}) {
    *stream = std::make_unique<Watched>(*this, std::move(*stream));
  }
}

void Recorder::start(nn::Tape& tape, std::int64_t batch) {
  tape_ = &tape, batch_ = batch, bottom_ = top();
  on_ = true;
  context_.tracer.start();
  look();
}

void Recorder::stop() {
  look(/*is_last=*/true);
  on_ = false;
  context_.tracer.stop();
}

void Recorder::look(bool is_last) {
  if (!on_) return;
  Sample now;
  for (std::size_t c = 0; c < kMemoryClasses.size(); ++c) {
    now.memory[c] = context_.ledger.count(kMemoryClasses[c]).in_use;
  }
  now.memory[static_cast<std::size_t>(MemoryClass::activations)] =
      batch_ + static_cast<std::int64_t>(top() - bottom_);
  std::vector<std::string> events = context_.tracer.take_order();
  const std::size_t spans = context_.tracer.spans().size();
  const bool is_news =
      samples_.empty() || !(now == samples_.back()) || !events.empty() || spans != spans_;
  if (is_news || is_last) {
    samples_.push_back(now);
    compute_->note(samples_.back().at);
    // The memory that the rank waits for may be written at this moment.
    const bool waits = spans != spans_ && context_.tracer.spans().back().lane == Lane::wait;
    if (probe_ != nullptr && !waits) see(probe_->look());
  }
  // A collective is announced and then begins at once, which is one happening.
  bool announced = false;
  for (std::string& event : events) {
    announced = event.starts_with("U.") || event.starts_with("RS.") || event.starts_with("AR.");
    happenings_.push_back({std::move(event), 0, samples_.size() - 1});
  }
  while (spans_ < spans) {
    ++spans_;
    if (announced)
      happenings_.back().span = spans_;
    else
      happenings_.push_back({"", spans_, samples_.size() - 1});
    announced = false;
  }
}

void Recorder::see(const Values& values) {
  if (life_.empty() || life_.back().values != values)
    life_.push_back({samples_.size() - 1, values});
}

}  // namespace nanofsdp::play
