#include "fsdp/grad_norm.h"

#include <utility>

#include "ops/elementwise.h"
#include "ops/norm.h"

namespace nanofsdp::fsdp {
namespace {

//! [add_squares]
// Adds the squares of the gradients that this rank has, parameter by parameter, to the sums of the
// ranks that own them: to the sums of all ranks, or to its own sum if it has no other gradients.
// All ranks of a tensor group have the gradients of a replicated parameter, and one of them counts
// these: `replicated` is true.
void add_squares(Stream& stream, const ShardedParameters& row, bool replicated, Tensor sums) {
  if (!row.is_reduced()) return;
  const Layout& layout = row.layout();
  for (std::size_t i = 0; i < row.parameters().size(); ++i) {
    const Piece piece = row.owned(i);
    const bool counts = replicated || row.parameters()[i]->part.ranks > 1;
    if (piece.in_shard.empty() || !counts) continue;
    const std::int64_t part = layout.chunk(i);
    const std::int64_t begin = layout.in_cut(i).begin + piece.in_parameter.begin;
    const std::int64_t owners = (begin % part + piece.in_shard.size() - 1) / part + 1;
    ops::squared_norm(stream,
                      {.x = row.gradient_shard().slice(piece.in_shard.begin, piece.in_shard.size()),
                       .out = sums.slice(begin / part % sums.numel(), owners),
                       .part = part,
                       .offset = begin % part});
  }
}
//! [add_squares]

}  // namespace

GradNorm::GradNorm(Context& context, comm::Mesh& mesh)
    : context_(context),
      mesh_(mesh),
      squares_(context.buffer(MemoryClass::communication, mesh.size(), DType::float64)),
      rows_(context.buffer(MemoryClass::communication, 0, DType::float64)),
      clip_(context.buffer(MemoryClass::communication, 2)) {}

void GradNorm::compute(std::span<Unit> units, double max_norm) {
  Stream& stream = *context_.compute;
  const ShardedParameters& root = units.back().rows().front();
  // Ranks that own different shards have one row of sums, in the order of the ranks. Replicas that
  // own the same shards have rows with the same sums.
  const int owners = root.layout().world_size();
  const Tensor all = squares_.tensor({mesh_.size()}, DType::float64);
  Tensor squares = all.slice(mesh_.rank() / owners * owners, owners);
  const Tensor mine = root.at_rest().optimizer ? all.slice(mesh_.rank(), 1) : squares;
  ops::fill(stream, {.x = squares, .value = 0});
  comm::Communicator& tensor = mesh_.tensor();
  for (const Unit& unit : units) add_squares(stream, unit.rows()[0], tensor.rank() == 0, mine);
  const comm::Call call{.unit = "gradient norm", .control = true};
  if (root.at_rest().optimizer) stream.wait(mesh_.world().all_gather(stream, mine, all, call));
  if (tensor.size() > 1) {
    rows_.grow(tensor.size() * squares.bytes());
    const Tensor rows = rows_.tensor({tensor.size() * owners}, DType::float64);
    stream.wait(tensor.all_gather(stream, std::exchange(squares, rows), rows, call));
  }
  ops::clip_coefficient(
      stream,
      {.squares = squares, .max_norm = max_norm, .norm = norm(), .coefficient = coefficient()});
}

}  // namespace nanofsdp::fsdp
