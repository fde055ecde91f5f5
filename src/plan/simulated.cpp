#include "plan/simulated.h"

#include <utility>

namespace nanofsdp::plan {
namespace {

using Kind = Issued::Kind;

class SimulatedEvent final : public Event::State {
 public:
  SimulatedEvent(IssueLog& log, int stream) : stream(stream), point(log.size()), log_(log) {}
  bool ready() override { return true; }
  void synchronize() override {
    log_.add({.kind = Kind::block, .stream = stream, .awaited = stream, .point = point});
  }
  const int stream;
  const std::size_t point;

 private:
  IssueLog& log_;
};

// On a CPU the main thread itself does the work of the compute stream: `is_inline`.
class SimulatedStream final : public Stream {
 public:
  using Stream::enqueue;
  SimulatedStream(Device device, int threads, bool is_inline, IssueLog& log, int number)
      : device_(device), threads_(threads), is_inline_(is_inline), log_(log), number_(number) {}

  Device device() const override { return device_; }
  int threads() const override { return threads_; }

  void enqueue(std::function<void()> work) override {
    const double bytes = static_cast<double>(std::exchange(allocated_, 0));
    enqueue({.read = bytes, .written = bytes}, std::move(work));
  }

  void enqueue(const Cost& cost, std::function<void()>) override {
    allocated_ = 0;
    log_.add({.kind = Kind::work, .stream = number_, .cost = cost});
  }

  // As on a CPU, whose main thread has done all work before the point.
  Event record() override {
    return is_inline_ ? Event() : Event(std::make_shared<SimulatedEvent>(log_, number_));
  }

  void wait(const Event& event) override {
    const auto* state = static_cast<const SimulatedEvent*>(event.state());
    if (state != nullptr) {
      log_.add(
          {.kind = Kind::wait, .stream = number_, .awaited = state->stream, .point = state->point});
    }
  }

  void synchronize() override { record().synchronize(); }

  void note(double& when) override {
    log_.add({.kind = Kind::note, .stream = number_, .when = &when});
  }

  void allocated(std::size_t bytes) override { allocated_ += bytes; }

 private:
  Device device_;
  int threads_;
  bool is_inline_;
  IssueLog& log_;
  int number_;
  std::size_t allocated_ = 0;  // since the last work
};

}  // namespace

SimulatedRank::SimulatedRank(int rank, int ranks, int threads, Device device)
    : Context(rank, ranks,
              std::make_unique<SimulatedStream>(device, threads, device == Device::simulated_cpu,
                                                issued, 0),
              std::make_unique<SimulatedStream>(device, 1, false, issued, 1),
              std::make_unique<SimulatedStream>(device, 1, false, issued, 2)) {}

}  // namespace nanofsdp::plan
