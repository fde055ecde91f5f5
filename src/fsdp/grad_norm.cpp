#include "fsdp/grad_norm.h"

#include "ops/elementwise.h"
#include "ops/norm.h"

namespace nanofsdp::fsdp {
namespace {

Buffer scalars(Context& context, int count, DType dtype) {
  return Buffer(context.ledger, MemoryClass::communication,
                static_cast<std::size_t>(count) * size_of(dtype), context.device);
}

//! [add_squares]
// Adds the squares of what lies in the shard of `rank`, parameter by parameter.
void add_squares(Stream& stream, const ShardedParameters& row, int rank, Tensor sum) {
  for (std::size_t i = 0; i < row.parameters().size(); ++i) {
    const Range at = row.owned(i, rank).in_shard;
    if (at.empty()) continue;
    ops::squared_norm(stream,
                      {.x = row.optimizer_gradients().slice(at.begin, at.size()), .out = sum});
  }
}
//! [add_squares]

// The same of all shards that this rank has of the row's reduced gradient: its own, or every one.
// Returns whether it was its own.
bool add_row(Stream& stream, const ShardedParameters& row, int rank, const Tensor& squares) {
  const bool sharded = row.owns_shard_alone();
  const int world = row.layout().world_size();
  for (int r = sharded ? rank : 0; r < (sharded ? rank + 1 : world); ++r) {
    add_squares(stream, row, r, squares.slice(r, 1));
  }
  return sharded;
}

}  // namespace

GradNorm::GradNorm(Context& context, comm::Mesh& mesh)
    : context_(context),
      mesh_(mesh),
      squares_(scalars(context, mesh.size(), DType::float64)),
      norm_(scalars(context, 1, DType::float32)),
      coefficient_(scalars(context, 1, DType::float32)) {}

void GradNorm::compute(std::span<Unit> units, double max_norm) {
  Stream& stream = *context_.compute;
  const int world = mesh_.shard_size(), rank = mesh_.shard_rank();
  // One row of s_0 ... s_W-1 for each shard group: replicas hold the same, each counts its own.
  const Tensor all = squares_.tensor({mesh_.size()}, DType::float64);
  const Tensor squares = all.slice(mesh_.rank() - rank, world);
  bool sharded = false;
  ops::fill(stream, {.x = squares, .value = 0});
  for (const Unit& unit : units) {
    if (unit.trains()) sharded |= add_row(stream, unit.rows().front(), rank, squares);
  }
  if (sharded) {
    stream.wait(mesh_.world().all_gather(stream, all.slice(mesh_.rank(), 1), all,
                                         {.unit = "gradient norm", .control = true}));
  }
  ops::clip_coefficient(
      stream,
      {.squares = squares, .max_norm = max_norm, .norm = norm(), .coefficient = coefficient()});
}

}  // namespace nanofsdp::fsdp
