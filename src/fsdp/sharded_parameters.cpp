#include "fsdp/sharded_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/fingerprint.h"
#include "base/transfer.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {

std::vector<ParameterSpec> specs_of(std::span<nn::Parameter* const> parameters) {
  std::vector<ParameterSpec> specs;
  for (const nn::Parameter* p : parameters) specs.push_back({p->name, p->shape});
  return specs;
}

ShardedParameters::ShardedParameters(Context& context, std::vector<nn::Parameter*> parameters,
                                     int rank, int world_size, const Sharding& at_rest,
                                     std::int64_t alignment, LayoutKind kind, int stored_shards)
    : context_(context),
      parameters_(std::move(parameters)),
      layout_(specs_of(parameters_), world_size, alignment, kind),
      at_rest_(at_rest),
      rank_(rank),
      shards_(stored_shards),
      trains_(!parameters_.empty() && parameters_[0]->requires_grad),
      fingerprints_(parameters_.size()),
      had_gradient_(parameters_.size()) {
  const DType dtype = parameters_.empty() ? DType::float32 : parameters_[0]->dtype;
  stored_parameters_ = store_as(MemoryClass::parameter_shards, at_rest.parameters, dtype);
  if (trains()) stored_gradients_ = store_as(MemoryClass::gradient_shards, at_rest.gradients);
  std::vector<float> room;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (const Tensor& given = parameters_[i]->data; !given.empty())
      store(i, on_host(*context_.compute, given, room));
  for (nn::Parameter* p : parameters_) p->sharded = true;
  show_parameters();
  if (trains()) show_gradients();
}

ShardedParameters::~ShardedParameters() {
  for (nn::Parameter* p : parameters_) p->leave_owner();
}

void ShardedParameters::require_unchanged() const {
  for (const nn::Parameter* p : parameters_)
    NANOFSDP_CHECK((trains_ || !p->requires_grad) && p->dtype == dtype(), .what = p->name,
                   .expected = "frozen, or of the same dtype, as when it was sharded",
                   .got = p->dtype == dtype() ? "to train" : std::string(name_of(p->dtype)),
                   .hint = "to freeze it later is fine; the other way is not");
}

//! [ranges]
ShardedParameters::Stored ShardedParameters::store_as(MemoryClass memory_class, bool sharded,
                                                      DType dtype) const {
  const std::int64_t numel = sharded ? shards_ * layout_.shard_numel() : layout_.whole_numel();
  Stored stored{.sharded = sharded, .memory = context_.buffer(memory_class, numel, dtype)};
  stored.all = stored.memory.tensor({numel}, dtype);
  return stored;
}
//! [ranges]

Tensor ShardedParameters::shard_of(const Stored& stored) const {
  if (!at_rest_.optimizer) return stored.all;
  const int before = stored.sharded ? rank_ % shards_ : rank_;
  return stored.all.slice(before * layout_.shard_numel(), layout_.shard_numel());
}

//! [shards_to_gather]
Tensor ShardedParameters::shards_to_gather(Stream& stream, comm::Communicator& replicas,
                                           const std::string& unit) {
  if (shards_ > 1 && std::exchange(complete_version_, version_) != version_) {
    Stream& across = *context_.reduce;  // it is idle until backward reduces gradients
    across.wait(written_);
    replicas.all_gather(across, parameter_shard(), parameter_storage(), {.unit = unit});
    stream.wait(across.record());
  }
  stream.wait(written_);
  return at_rest_.parameters ? parameter_storage() : parameter_shard();
}
//! [shards_to_gather]

Piece ShardedParameters::all(std::size_t i) const {
  const Range whole = layout_.in_whole(i);
  return {.in_shard = whole, .in_parameter = {0, whole.size()}};
}

Shape ShardedParameters::shape_of(std::size_t i, bool sharded) const {
  const Shape& shape = parameters_[i]->shape;
  if (!sharded) return shape;
  const std::int64_t n = layout_.piece(i, rank_).in_shard.size();
  if (layout_.kind() == LayoutKind::flat || shape.rank() == 0) return {n};
  return shape.with(0, n == 0 ? 0 : n * shape[0] / shape.numel());
}

//! [show_parameters]
Tensor ShardedParameters::view_of(std::size_t i, const Stored& stored, const Tensor& whole) const {
  const bool sharded = whole.empty() && stored.sharded && layout_.whole_numel() > 0;
  const Range at = sharded ? layout_.piece(i, rank_).in_shard : layout_.in_whole(i);
  const Tensor memory = sharded ? shard_of(stored) : whole.empty() ? stored.all : whole;
  return memory.slice(at.begin, at.size()).view(shape_of(i, sharded));
}

void ShardedParameters::show_parameters(Tensor whole) {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i]->data = view_of(i, stored_parameters_, whole);
}
//! [show_parameters]

void ShardedParameters::show_gradients(Tensor whole, bool rests) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool wanted = parameters_[i]->requires_grad;
    parameters_[i]->show_grad(wanted ? view_of(i, stored_gradients_, whole) : Tensor(), rests);
  }
}

void ShardedParameters::forget_gradients() {
  for (nn::Parameter* parameter : parameters_) parameter->has_grad = false;
}

//! [mark_missing_gradients]
void ShardedParameters::mark_missing_gradients(Stream& stream, Tensor whole) {
  reduced_ = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    had_gradient_[i] = had_gradient_[i] || parameters_[i]->has_grad;
    if (parameters_[i]->has_grad) continue;
    ops::fill(stream, {.x = view_of(i, stored_gradients_, whole), .value = -0.0F});
  }
}

void ShardedParameters::zero_grad(bool set_to_none) {
  forget_gradients();
  reduced_ = !set_to_none;
  if (!set_to_none) ops::fill(*context_.compute, {.x = gradient_storage(), .value = 0});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    had_gradient_[i] = !set_to_none && parameters_[i]->requires_grad;
    const Tensor stored = view_of(i, stored_gradients_, {});
    if (reduced_ && !had_gradient_[i]) ops::fill(*context_.compute, {stored, -0.0F});
  }
}

std::vector<bool> ShardedParameters::have_gradients() const {
  if (!reduced_) return std::vector<bool>(parameters_.size());  // there are no gradients yet
  const auto is_none = [](float g) { return g == 0 && std::signbit(g); };
  std::vector<bool> have = had_gradient_;
  std::vector<float> room;
  for (std::size_t i = 0; i < have.size(); ++i) {
    if (have[i]) continue;
    const Range piece = owned(i).in_shard;
    const Tensor reduced = gradient_shard().slice(piece.begin, piece.size());
    have[i] = !std::ranges::all_of(on_host(*context_.compute, reduced, room), is_none);
  }
  return have;
}
//! [mark_missing_gradients]

void ShardedParameters::store(std::size_t i, std::span<const float> whole) {
  const Piece piece = at_rest_.parameters ? layout_.piece(i, rank_) : all(i);
  const Tensor stored = at_rest_.parameters ? parameter_shard() : parameter_storage();
  const Tensor given(const_cast<float*>(whole.data()), parameters_[i]->shape);
  NANOFSDP_CHECK_SHAPE(std::ssize(whole) == given.numel(),
                       .what = "values of " + parameters_[i]->name, .expected = given.shape().str(),
                       .got = std::to_string(whole.size()));
  transfer(*context_.compute, given.slice(piece.in_parameter.begin, piece.in_parameter.size()),
           stored.slice(piece.in_shard.begin, piece.in_shard.size()));
  written(/*all=*/false);
  fingerprints_[i] = nanofsdp::fingerprint(whole);
}

std::uint64_t ShardedParameters::fingerprint(std::size_t i) const {
  const nn::Parameter& p = *parameters_[i];
  return nanofsdp::fingerprint(fmt::format(
      "{}{} {} at {} of {}, {}: {}", p.name, p.shape.str(), name_of(dtype()),
      layout_.in_whole(i).begin, layout_.shard_numel(), trains_, fingerprints_[i].value_or(0)));
}

}  // namespace nanofsdp::fsdp
