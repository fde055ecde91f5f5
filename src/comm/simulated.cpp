#include "comm/simulated.h"

#include <memory>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "comm/group.h"

namespace nanofsdp::comm {
namespace {

// Rank `rank` of `size`, which are `stride` apart.
class SimulatedGroup final : public Group {
 public:
  SimulatedGroup(Context& context, const SimulatedRun& run, int rank, int size, int stride)
      : Group(rank, size), context_(context), run_(run), stride_(stride) {}

  bool serves(Device device) const override { return is_simulated(device); }

  Cost announce(const Operation& operation) override {
    const std::int64_t chunk =
        operation.count * static_cast<std::int64_t>(size_of(operation.dtype));
    const bool reduces = operation.kind == Operation::Kind::reduce_scatter;
    if (reduces && run_.scratch) reserve(run_.scratch(size_, chunk));
    const bool whole = operation.kind == Operation::Kind::broadcast;
    const double sent = static_cast<double>(whole ? chunk : (size_ - 1) * chunk);
    return {.message = {.bytes = sent, .ranks = size_, .stride = stride_}};
  }

  // Nobody calls these: work on a simulated stream is not done.
  void all_gather(Stream&, const Operation&, Tensor, Tensor) override {}
  void reduce_scatter(Stream&, const Operation&, Tensor, Tensor) override {}
  void broadcast(Stream&, const Operation&, Tensor) override {}
  void barrier(Stream&, const Operation&) override {}
  void abort(const std::string&) noexcept override {}

  std::shared_ptr<Group> split(const Operation&, int) override {
    NANOFSDP_CHECK(false, .what = "split of a simulated group", .expected = "make_simulated_mesh",
                   .got = "a color", .hint = "one rank does not know the colors of others");
    return nullptr;
  }

 private:
  void reserve(std::int64_t bytes) {
    if (static_cast<std::int64_t>(scratch_.bytes()) >= bytes) return;
    scratch_ = Buffer();  // first give back, then take
    scratch_ = Buffer(context_.ledger, MemoryClass::communication, static_cast<std::size_t>(bytes),
                      context_.device);
  }

  Context& context_;
  SimulatedRun run_;
  int stride_;
  Buffer scratch_;
};

}  // namespace

Mesh make_simulated_mesh(Context& context, const SimulatedRun& run) {
  const int rank = context.rank, W = context.world_size;
  const int F = shard_group_size(run.shard_size, W);
  const auto group = [&](int at, int size, int stride) {
    return on_streams(std::make_shared<SimulatedGroup>(context, run, at, size, stride));
  };
  return Mesh(group(rank, W, 1), group(rank % F, F, 1), group(rank % F, F, 1),
              group(rank / F, W / F, F));
}

}  // namespace nanofsdp::comm
