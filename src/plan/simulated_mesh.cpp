#include "plan/simulated_mesh.h"

#include <memory>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "comm/group.h"

namespace nanofsdp::plan {
namespace {

// Rank `rank` of `size`, which are `stride` apart.
class SimulatedGroup final : public comm::Group {
 public:
  SimulatedGroup(Context& context, const SimulatedRun& run, int rank, int size, int stride)
      : Group(rank, size), context_(context), run_(run), stride_(stride) {}

  bool serves(Device device) const override { return is_simulated(device); }

  Cost announce(const comm::Operation& operation) override {
    const std::int64_t chunk =
        operation.count * static_cast<std::int64_t>(size_of(operation.dtype));
    const bool reduces = operation.kind == comm::Operation::Kind::reduce_scatter;
    if (reduces && run_.scratch) reserve(run_.scratch(size_, chunk));
    const bool whole = operation.kind == comm::Operation::Kind::broadcast;
    const double sent = static_cast<double>(whole ? chunk : (size_ - 1) * chunk);
    return {.message = {.bytes = sent, .ranks = size_, .stride = stride_}};
  }

  // Nobody calls these: work on a simulated stream is not done.
  void all_gather(Stream&, const comm::Operation&, Tensor, Tensor) override {}
  void reduce_scatter(Stream&, const comm::Operation&, Tensor, Tensor) override {}
  void broadcast(Stream&, const comm::Operation&, Tensor) override {}
  void barrier(Stream&, const comm::Operation&) override {}
  void abort(const std::string&) noexcept override {}

  std::shared_ptr<comm::Group> split(const comm::Operation&, int) override {
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

comm::Mesh make_simulated_mesh(Context& context, const SimulatedRun& run) {
  const int rank = context.rank, W = context.world_size;
  const int F = comm::shard_group_size(run.shard_size, W);
  const auto group = [&](int at, int size, int stride) {
    return comm::on_streams(std::make_shared<SimulatedGroup>(context, run, at, size, stride));
  };
  const int K = comm::post_forward_group_size(run.post_forward_size, F);
  return comm::Mesh(group(rank, W, 1), group(rank % F, F, 1), group(rank % F, F, 1),
                    group(rank / F, W / F, F), K > 0 ? group(rank % K, K, 1) : nullptr);
}

}  // namespace nanofsdp::plan
