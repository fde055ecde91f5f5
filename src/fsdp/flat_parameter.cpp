#include "fsdp/flat_parameter.h"

#include <utility>

#include "base/transfer.h"

namespace nanofsdp::fsdp {
namespace {

Buffer memory_for(Context& context, MemoryClass memory_class, Range range) {
  const auto bytes = static_cast<std::size_t>(range.size()) * size_of(DType::float32);
  return Buffer(context.ledger, memory_class, bytes, context.device);
}

}  // namespace

std::vector<ParameterSpec> specs_of(std::span<nn::Parameter* const> parameters) {
  std::vector<ParameterSpec> specs;
  for (const nn::Parameter* parameter : parameters) {
    const auto dims = parameter->shape.dims();
    specs.push_back({parameter->name, {dims.begin(), dims.end()}});
  }
  return specs;
}

FlatParameter::FlatParameter(Context& context, std::vector<nn::Parameter*> parameters, int rank,
                             int world_size, const ShardingStrategy& strategy,
                             std::int64_t alignment)
    : context_(context),
      parameters_(std::move(parameters)),
      layout_(specs_of(parameters_), world_size, alignment),
      //! [ranges]
      rank_(rank),
      parameter_range_(strategy.shard_parameters ? layout_.shard_of(rank) : layout_.whole()),
      gradient_range_(strategy.shard_gradients ? layout_.shard_of(rank) : layout_.whole()),
      optimizer_range_(strategy.shard_optimizer ? layout_.shard_of(rank) : layout_.whole()),
      //! [ranges]
      parameters_memory_(memory_for(context, MemoryClass::parameter_shards, parameter_range_)),
      gradients_memory_(memory_for(context, MemoryClass::gradient_shards, gradient_range_)) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i]->data.empty()) store(i, parameters_[i]->data.span<float>());
  }
  show_stored_parameters();
  show_stored_gradients();
}

Tensor FlatParameter::shard_of(const Tensor& storage) const {
  const bool whole = storage.numel() == layout_.padded_numel();
  return storage.slice(whole ? layout_.shard_of(rank_).begin : 0, layout_.shard_numel());
}

Tensor FlatParameter::optimizer_parameters() const {
  return parameter_storage().slice(optimizer_range_.begin - parameter_range_.begin,
                                   optimizer_range_.size());
}

Tensor FlatParameter::optimizer_gradients() const {
  return gradient_storage().slice(optimizer_range_.begin - gradient_range_.begin,
                                  optimizer_range_.size());
}

//! [show_parameters]
void FlatParameter::show_parameters(Tensor full) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Range at = layout_.in_flat(i);
    parameters_[i]->data = full.slice(at.begin, at.size()).view(parameters_[i]->shape);
  }
}
//! [show_parameters]

void FlatParameter::show_gradients(Tensor full) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i]->requires_grad) continue;
    const Range at = layout_.in_flat(i);
    parameters_[i]->grad = full.slice(at.begin, at.size()).view(parameters_[i]->shape);
  }
}

void FlatParameter::show_stored_parameters() {
  if (parameter_range_ == layout_.whole()) return show_parameters(parameter_storage());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Range at = layout_.piece(i, parameter_range_).in_shard;
    parameters_[i]->data = parameter_storage().slice(at.begin, at.size());
  }
}

void FlatParameter::show_stored_gradients() {
  if (gradient_range_ == layout_.whole()) return show_gradients(gradient_storage());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i]->requires_grad) continue;
    const Range at = layout_.piece(i, gradient_range_).in_shard;
    parameters_[i]->grad = gradient_storage().slice(at.begin, at.size());
  }
}

void FlatParameter::store(std::size_t i, std::span<const float> whole) {
  const Piece piece = layout_.piece(i, parameter_range_);
  const Tensor given(const_cast<float*>(whole.data()), parameters_[i]->shape);
  transfer(*context_.compute, given.slice(piece.in_parameter.begin, piece.in_parameter.size()),
           parameter_storage().slice(piece.in_shard.begin, piece.in_shard.size()));
  written();
}

}  // namespace nanofsdp::fsdp
