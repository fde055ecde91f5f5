#include "plan/simulated.h"

#include <memory>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "comm/group.h"

namespace nanofsdp::plan {
namespace {

using Kind = Issued::Kind;

struct SimulatedEvent final : Event::State {
  SimulatedEvent(IssueLog& log, int stream) : log(log), stream(stream), point(log.issued.size()) {}
  bool ready() override { return true; }
  void synchronize() override {
    log.add({.kind = Kind::block, .stream = stream, .awaited = stream, .point = point});
  }
  IssueLog& log;
  const int stream;
  const std::size_t point;
};

class SimulatedStream final : public Stream {
 public:
  using Stream::enqueue;
  SimulatedStream(Device device, int threads, IssueLog& log, int number)
      : device_(device), threads_(threads), log_(log), number_(number) {}

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

  // On a CPU the main thread does the work of the compute stream itself, so all work before the
  // point is done.
  Event record() override {
    if (number_ == 0 && device_ == Device::simulated_cpu) return Event();
    return Event(std::make_shared<SimulatedEvent>(log_, number_));
  }

  void wait(const Event& event) override {
    const auto* of = static_cast<const SimulatedEvent*>(event.state());
    if (of == nullptr) return;
    log_.add({.kind = Kind::wait, .stream = number_, .awaited = of->stream, .point = of->point});
  }

  void synchronize() override { record().synchronize(); }

  void note(double& when) override {
    log_.add({.kind = Kind::note, .stream = number_, .when = &when});
  }

  void allocated(std::uint64_t bytes) override { allocated_ += bytes; }

 private:
  Device device_;
  int threads_;
  IssueLog& log_;
  int number_;
  std::uint64_t allocated_ = 0;  // bytes allocated since the last work
};

// A group of `size` ranks that are `stride` apart, seen from its rank `rank`.
class SimulatedGroup final : public comm::Group {
 public:
  SimulatedGroup(Context& context, const Scratch& scratch, int rank, int size, int stride)
      : Group(rank, size),
        needs_(scratch),
        first_(context.rank - rank * stride),
        stride_(stride),
        scratch_(context.ledger, MemoryClass::communication, 0, context.device) {}

  bool serves(Device device) const override { return is_simulated(device); }

  Cost announce(const comm::Operation& operation) override {
    const std::int64_t chunk =
        operation.count * static_cast<std::int64_t>(size_of(operation.dtype));
    const bool reduces = operation.kind == comm::Operation::Kind::reduce_scatter;
    const int last = first_ + (size - 1) * stride_;
    if (reduces && needs_) scratch_.grow(needs_(size, first_, last, chunk));
    // In a broadcast only the root sends.
    const auto sent = static_cast<double>((size - 1) * chunk);
    return {.payload = {.bytes = sent, .ranks = size, .stride = stride_}};
  }

  // No stream calls this, because a simulated stream does no work.
  void run(Stream&, const comm::Operation&, Tensor, Tensor) override {}
  void abort(const std::string&) noexcept override {}

  std::shared_ptr<comm::Group> split(int) override {
    NANOFSDP_CHECK(false, .what = "split of a simulated group", .expected = "make_simulated_mesh",
                   .got = "a color", .hint = "one rank does not know the colors of others");
    return nullptr;
  }

 private:
  Scratch needs_;
  int first_, stride_;  // in ranks of the run
  Buffer scratch_;
};

}  // namespace

SimulatedRank::SimulatedRank(int rank, int ranks, int threads, Device device)
    : Context(rank, ranks, std::make_unique<SimulatedStream>(device, threads, *this, 0),
              std::make_unique<SimulatedStream>(device, 1, *this, 1),
              std::make_unique<SimulatedStream>(device, 1, *this, 2)) {}

comm::Mesh make_simulated_mesh(Context& context, int shard_size, int post_forward_size,
                               const Scratch& scratch, int tensor_size) {
  const int T = comm::group_size(tensor_size, context.world_size, "tensor_size");
  const int r = context.rank / T, W = context.world_size / T;
  const int F = comm::group_size(shard_size, W);
  std::vector<std::unique_ptr<comm::Communicator>> groups;
  const auto add = [&](int at, int size, int stride) {
    groups.push_back(
        comm::on_streams(std::make_shared<SimulatedGroup>(context, scratch, at, size, stride)));
  };
  const int K = comm::group_size(post_forward_size, F, "reshard_after_forward");
  add(context.rank % T, T, 1), add(r, W, T);
  add(r % F, F, T), add(r % F, F, T), add(r / F, W / F, F * T);
  if (K < F) add(r % K, K, T);
  return comm::Mesh(std::move(groups));
}

}  // namespace nanofsdp::plan
