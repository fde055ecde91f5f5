#include "fsdp/grad_norm.h"

#include "ops/elementwise.h"
#include "ops/norm.h"

namespace nanofsdp::fsdp {
namespace {

//! [add_squares]
// Adds the squares of what lies in the shard of `rank`, parameter by parameter.
void add_squares(Stream& stream, const ShardedParameters& row, int rank, Tensor sum) {
  for (std::size_t i = 0; i < row.parameters().size(); ++i) {
    const Range at = row.owned(i, rank).in_shard;
    if (at.empty()) continue;
    ops::squared_norm(stream, {.x = row.gradient_shard().slice(at.begin, at.size()), .out = sum});
  }
}
//! [add_squares]

}  // namespace

GradNorm::GradNorm(Context& context, comm::Mesh& mesh)
    : context_(context),
      mesh_(mesh),
      squares_(context.buffer(MemoryClass::communication, mesh.size(), DType::float64)),
      norm_(context.buffer(MemoryClass::communication, 1)),
      coefficient_(context.buffer(MemoryClass::communication, 1)) {}

void GradNorm::compute(std::span<Unit> units, double max_norm) {
  Stream& stream = *context_.compute;
  const int world = mesh_.shard_size(), rank = mesh_.shard_rank();
  // One row of s_0 ... s_W-1 for each shard group: replicas hold the same, each counts its own.
  const Tensor all = squares_.tensor({mesh_.size()}, DType::float64);
  const Tensor squares = all.slice(mesh_.rank() - rank, world);
  // Of the reduced gradients a rank has its own shard, or every one.
  const bool sharded = units.back().rows().front().kept().optimizer;
  const int first = sharded ? rank : 0, last = sharded ? rank : world - 1;
  ops::fill(stream, {.x = squares, .value = 0});
  for (const Unit& unit : units) {
    for (int r = first; r <= last; ++r) {
      add_squares(stream, unit.rows().front(), r, squares.slice(r, 1));
    }
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
