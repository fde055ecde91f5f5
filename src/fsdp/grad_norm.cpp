#include "fsdp/grad_norm.h"

#include "ops/elementwise.h"
#include "ops/norm.h"

namespace nanofsdp::fsdp {
namespace {

Buffer scalars(Context& context, int count, DType dtype) {
  return Buffer(context.ledger, MemoryClass::communication,
                static_cast<std::size_t>(count) * size_of(dtype), context.device);
}

// Adds the squares of what `shard` of the row holds, parameter by parameter.
void add_squares(Stream& stream, const FlatParameter& flat, Range shard, Tensor gradients,
                 Tensor sum) {
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    const Range piece = flat.layout().piece(i, shard).in_shard;
    if (piece.empty()) continue;
    ops::squared_norm(stream, {.x = gradients.slice(piece.begin, piece.size()), .out = sum});
  }
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
  const int world = mesh_.size(), rank = mesh_.rank();
  const Tensor squares = squares_.tensor({world}, DType::float64);
  bool sharded = false;
  ops::fill(stream, {.x = squares, .value = 0});
  for (Unit& unit : units) {
    const FlatParameter& flat = unit.flat();
    const std::int64_t s = flat.layout().shard_numel();
    if (flat.gradient_storage().numel() == s) {
      sharded = world > 1;
      add_squares(stream, flat, flat.layout().shard_of(rank), flat.gradient_shard(),
                  squares.slice(rank, 1));
      continue;
    }
    for (int r = 0; r < world; ++r) {
      add_squares(stream, flat, flat.layout().shard_of(r), flat.gradient_storage().slice(r * s, s),
                  squares.slice(r, 1));
    }
  }
  if (sharded) {
    stream.wait(mesh_.world().all_gather(stream, squares.slice(rank, 1), squares,
                                         {.unit = "gradient norm", .control = true}));
  }
  ops::clip_coefficient(
      stream,
      {.squares = squares, .max_norm = max_norm, .norm = norm(), .coefficient = coefficient()});
}

}  // namespace nanofsdp::fsdp
