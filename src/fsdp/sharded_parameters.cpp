#include "fsdp/sharded_parameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/transfer.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

Buffer memory_for(Context& context, MemoryClass memory_class, std::int64_t numel) {
  const auto bytes = static_cast<std::size_t>(numel) * size_of(DType::float32);
  return Buffer(context.ledger, memory_class, bytes, context.device);
}

}  // namespace

std::vector<ShardedParameters> shard(Context& context, std::span<nn::Parameter* const> parameters,
                                     int rank, int world_size, const Sharding& kept,
                                     std::int64_t alignment, LayoutKind kind) {
  std::vector<nn::Parameter*> trained, frozen;
  for (nn::Parameter* p : parameters) (p->requires_grad ? trained : frozen).push_back(p);
  std::vector<ShardedParameters> rows;
  rows.emplace_back(context, trained, rank, world_size, kept, alignment, kind);
  if (!frozen.empty()) rows.emplace_back(context, frozen, rank, world_size, kept, alignment, kind);
  return rows;
}

std::vector<ParameterSpec> specs_of(std::span<nn::Parameter* const> parameters) {
  std::vector<ParameterSpec> specs;
  for (const nn::Parameter* parameter : parameters) {
    const auto dims = parameter->shape.dims();
    specs.push_back({parameter->name, {dims.begin(), dims.end()}});
  }
  return specs;
}

ShardedParameters::ShardedParameters(Context& context, std::vector<nn::Parameter*> parameters,
                                     int rank, int world_size, const Sharding& kept,
                                     std::int64_t alignment, LayoutKind kind)
    : context_(context),
      parameters_(std::move(parameters)),
      layout_(make_layout(kind, specs_of(parameters_), world_size, alignment)),
      kept_(kept),
      rank_(rank),
      had_gradient_(parameters_.size()) {
  //! [ranges]
  const std::int64_t whole = layout_->whole_numel(), shard = layout_->shard_numel();
  parameters_memory_ =
      memory_for(context, MemoryClass::parameter_shards, kept.parameters ? shard : whole);
  if (trains()) {
    gradients_memory_ =
        memory_for(context, MemoryClass::gradient_shards, kept.gradients ? shard : whole);
  }
  //! [ranges]
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i]->data.empty()) store(i, parameters_[i]->data.span<float>());
  }
  show_parameters();
  if (trains()) show_gradients();
}

Tensor ShardedParameters::all_of(const Buffer& memory) {
  return memory.tensor({static_cast<std::int64_t>(memory.bytes() / size_of(DType::float32))});
}

Tensor ShardedParameters::shard_of(const Tensor& stored, bool sharded) const {
  const std::int64_t n = layout_->shard_numel();
  return sharded ? stored : stored.slice(rank_ * n, n);
}

Piece ShardedParameters::all(std::size_t i) const {
  const Range whole = layout_->in_whole(i);
  return {.in_shard = whole, .in_parameter = {0, whole.size()}};
}

Piece ShardedParameters::owned(std::size_t i, int rank) const {
  Piece piece = layout_->piece(i, rank);
  if (kept_.optimizer) return piece;
  const std::int64_t begin = layout_->in_whole(i).begin + piece.in_parameter.begin;
  piece.in_shard = {begin, begin + piece.in_parameter.size()};
  return piece;
}

//! [show_parameters]
Tensor ShardedParameters::view_of(std::size_t i, const Tensor& memory, bool sharded) const {
  const Range at = sharded ? layout_->piece(i, rank_).in_shard : layout_->in_whole(i);
  const Tensor piece = memory.slice(at.begin, at.size());
  return sharded ? piece : piece.view(parameters_[i]->shape);
}

void ShardedParameters::show_parameters(Tensor whole) {
  const bool sharded = whole.empty() && kept_.parameters;
  const Tensor memory = whole.empty() ? parameter_storage() : whole;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i]->data = view_of(i, memory, sharded);
  }
}
//! [show_parameters]

void ShardedParameters::show_gradients(Tensor whole) {
  const bool sharded = whole.empty() && kept_.gradients;
  const Tensor memory = whole.empty() ? gradient_storage() : whole;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i]->show_grad(view_of(i, memory, sharded));
  }
}

void ShardedParameters::forget_gradients() {
  for (nn::Parameter* parameter : parameters_) parameter->has_grad = false;
}

//! [mark_missing_gradients]
void ShardedParameters::mark_missing_gradients(Stream& stream, Tensor whole) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    had_gradient_[i] = had_gradient_[i] || parameters_[i]->has_grad;
    if (parameters_[i]->has_grad) continue;
    const Range at = layout_->in_whole(i);
    ops::fill(stream, {.x = whole.slice(at.begin, at.size()), .value = -0.0F});
  }
}

bool ShardedParameters::has_gradient(std::size_t i) const {
  if (had_gradient_[i]) return true;
  const Range piece = owned(i).in_shard;
  std::vector<float> reduced(static_cast<std::size_t>(piece.size()));
  transfer(*context_.compute, optimizer_gradients().slice(piece.begin, piece.size()),
           Tensor(reduced.data(), {piece.size()}));
  const auto is_none = [](float g) { return g == 0 && std::signbit(g); };
  return !std::ranges::all_of(reduced, is_none);
}
//! [mark_missing_gradients]

void ShardedParameters::zero_grad(bool set_to_none) {
  had_gradient_.assign(parameters_.size(), !set_to_none);
}

void ShardedParameters::store(std::size_t i, std::span<const float> whole) {
  const Piece piece = kept_.parameters ? layout_->piece(i, rank_) : all(i);
  const Tensor given(const_cast<float*>(whole.data()), parameters_[i]->shape);
  transfer(*context_.compute, given.slice(piece.in_parameter.begin, piece.in_parameter.size()),
           parameter_storage().slice(piece.in_shard.begin, piece.in_shard.size()));
  written();
}

}  // namespace nanofsdp::fsdp
