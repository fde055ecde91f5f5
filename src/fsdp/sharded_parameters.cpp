#include "fsdp/sharded_parameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/transfer.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

Buffer memory_for(Context& context, MemoryClass memory_class, Range range) {
  const auto bytes = static_cast<std::size_t>(range.size()) * size_of(DType::float32);
  return Buffer(context.ledger, memory_class, bytes, context.device);
}

}  // namespace

std::vector<ShardedParameters> shard(Context& context, std::span<nn::Parameter* const> parameters,
                                     int rank, int world_size, const Sharding& kept,
                                     std::int64_t alignment) {
  std::vector<nn::Parameter*> trained, frozen;
  for (nn::Parameter* p : parameters) (p->requires_grad ? trained : frozen).push_back(p);
  std::vector<ShardedParameters> rows;
  rows.emplace_back(context, trained, rank, world_size, kept, alignment);
  if (!frozen.empty()) rows.emplace_back(context, frozen, rank, world_size, kept, alignment);
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
                                     std::int64_t alignment)
    : context_(context),
      parameters_(std::move(parameters)),
      layout_(specs_of(parameters_), world_size, alignment),
      kept_(kept),
      rank_(rank),
      had_gradient_(parameters_.size()) {
  //! [ranges]
  const Range whole = layout_.whole(), shard = layout_.shard_of(rank);
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
  show_parameters(parameter_storage());
  if (trains()) show_gradients(gradient_storage());
}

Tensor ShardedParameters::all_of(const Buffer& memory) {
  return memory.tensor({static_cast<std::int64_t>(memory.bytes() / size_of(DType::float32))});
}

// Of the row, which elements lie in the memory: all, or this rank's shard.
Range ShardedParameters::range_of(const Tensor& memory) const {
  return memory.numel() == layout_.padded_numel() ? layout_.whole() : shard_range();
}

Tensor ShardedParameters::part_of(const Tensor& memory, Range range) const {
  return memory.slice(range.begin - range_of(memory).begin, range.size());
}

//! [show_parameters]
Tensor ShardedParameters::view_of(std::size_t i, const Tensor& memory) const {
  const Range there = range_of(memory), at = layout_.piece(i, there).in_shard;
  const Tensor piece = memory.slice(at.begin, at.size());
  return there == layout_.whole() ? piece.view(parameters_[i]->shape) : piece;
}

void ShardedParameters::show_parameters(Tensor memory) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->data = view_of(i, memory);
}
//! [show_parameters]

void ShardedParameters::show_gradients(Tensor memory) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i]->show_grad(view_of(i, memory));
  }
}

void ShardedParameters::forget_gradients() {
  for (nn::Parameter* parameter : parameters_) parameter->has_grad = false;
}

//! [mark_missing_gradients]
void ShardedParameters::mark_missing_gradients(Stream& stream, Tensor full) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    had_gradient_[i] = had_gradient_[i] || parameters_[i]->has_grad;
    if (parameters_[i]->has_grad) continue;
    const Range at = layout_.in_flat(i);
    ops::fill(stream, {.x = full.slice(at.begin, at.size()), .value = -0.0F});
  }
}

bool ShardedParameters::has_gradient(std::size_t i) const {
  if (had_gradient_[i]) return true;
  const Range piece = layout_.piece(i, optimizer_range()).in_shard;
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
  const Piece piece = layout_.piece(i, range_of(parameter_storage()));
  const Tensor given(const_cast<float*>(whole.data()), parameters_[i]->shape);
  transfer(*context_.compute, given.slice(piece.in_parameter.begin, piece.in_parameter.size()),
           parameter_storage().slice(piece.in_shard.begin, piece.in_shard.size()));
  written();
}

}  // namespace nanofsdp::fsdp
