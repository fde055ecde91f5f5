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

std::vector<std::vector<nn::Parameter*>> rows_of(std::span<nn::Parameter* const> parameters) {
  std::vector<std::vector<nn::Parameter*>> rows(2);
  for (nn::Parameter* parameter : parameters) {
    rows[parameter->requires_grad ? 0 : 1].push_back(parameter);
  }
  const std::size_t empty = rows[1].empty() ? 1 : 0;
  if (rows[empty].empty()) rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(empty));
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
      //! [ranges]
      rank_(rank),
      parameter_range_(kept.parameters ? layout_.shard_of(rank) : layout_.whole()),
      gradient_range_(kept.gradients ? layout_.shard_of(rank) : layout_.whole()),
      optimizer_range_(kept.optimizer ? layout_.shard_of(rank) : layout_.whole()),
      //! [ranges]
      parameters_memory_(memory_for(context, MemoryClass::parameter_shards, parameter_range_)),
      gradients_memory_(
          memory_for(context, MemoryClass::gradient_shards, trains() ? gradient_range_ : Range{})),
      had_gradient_(parameters_.size()) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i]->data.empty()) store(i, parameters_[i]->data.span<float>());
  }
  show_stored_parameters();
  if (trains()) show_stored_gradients();
}

Tensor ShardedParameters::shard_of(const Tensor& storage) const {
  const bool whole = storage.numel() == layout_.padded_numel();
  return storage.slice(whole ? layout_.shard_of(rank_).begin : 0, layout_.shard_numel());
}

Tensor ShardedParameters::optimizer_parameters() const {
  return parameter_storage().slice(optimizer_range_.begin - parameter_range_.begin,
                                   optimizer_range_.size());
}

Tensor ShardedParameters::optimizer_gradients() const {
  return gradient_storage().slice(optimizer_range_.begin - gradient_range_.begin,
                                  optimizer_range_.size());
}

//! [show_parameters]
void ShardedParameters::show_parameters(Tensor full) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Range at = layout_.in_flat(i);
    parameters_[i]->data = full.slice(at.begin, at.size()).view(parameters_[i]->shape);
  }
}
//! [show_parameters]

void ShardedParameters::show_gradients(Tensor full) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Range at = layout_.in_flat(i);
    parameters_[i]->show_grad(full.slice(at.begin, at.size()).view(parameters_[i]->shape));
  }
}

void ShardedParameters::show_stored_parameters() {
  if (parameter_range_ == layout_.whole()) return show_parameters(parameter_storage());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Range at = layout_.piece(i, parameter_range_).in_shard;
    parameters_[i]->data = parameter_storage().slice(at.begin, at.size());
  }
}

void ShardedParameters::show_stored_gradients() {
  if (gradient_range_ == layout_.whole()) return show_gradients(gradient_storage());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Range at = layout_.piece(i, gradient_range_).in_shard;
    parameters_[i]->show_grad(gradient_storage().slice(at.begin, at.size()));
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
  const Range piece = layout_.piece(i, optimizer_range_).in_shard;
  std::vector<float> reduced(static_cast<std::size_t>(piece.size()));
  transfer(*context_.compute, optimizer_gradients().slice(piece.begin, piece.size()),
           Tensor(reduced.data(), {piece.size()}));
  const auto is_none = [](float g) { return g == 0 && std::signbit(g); };
  return !std::ranges::all_of(reduced, is_none);
}
//! [mark_missing_gradients]

void ShardedParameters::zero_grad(bool set_to_none) {
  std::fill(had_gradient_.begin(), had_gradient_.end(), !set_to_none);
}

void ShardedParameters::store(std::size_t i, std::span<const float> whole) {
  const Piece piece = layout_.piece(i, parameter_range_);
  const Tensor given(const_cast<float*>(whole.data()), parameters_[i]->shape);
  transfer(*context_.compute, given.slice(piece.in_parameter.begin, piece.in_parameter.size()),
           parameter_storage().slice(piece.in_shard.begin, piece.in_shard.size()));
  written();
}

}  // namespace nanofsdp::fsdp
