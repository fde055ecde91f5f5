#include "fsdp/unit.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "fsdp/collectives.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

constexpr std::array<std::string_view, 4> kStateNames = {"sharded", "gathering", "unsharded",
                                                         "reducing"};

std::string name_of(Unit::State state) {
  return std::string(kStateNames[static_cast<std::size_t>(state)]);
}

// The part of the wire that a unit needs; empty if there is none.
Tensor wire_for(const Tensor& wire, const FlatLayout& layout) {
  return wire.empty() ? wire : wire.slice(0, layout.padded_numel());
}

}  // namespace

bool borrows_parameters(const ShardingStrategy& strategy, const MixedPrecision& precision) {
  return strategy.shard_parameters || precision.param_dtype != DType::float32;
}

Unit::Unit(Context& context, comm::Mesh& mesh, const UnitOptions& options, WrappedModule wrapped,
           FlatParameter flat, UnitMemory memory)
    : context_(context),
      mesh_(mesh),
      options_(options),
      wrapped_(std::move(wrapped)),
      flat_(std::move(flat)),
      memory_(memory) {
  memory_.gather_wire = wire_for(memory.gather_wire, flat_.layout());
  memory_.reduce_wire = wire_for(memory.reduce_wire, flat_.layout());
}

void Unit::go(State from, State to, const char* verb) {
  NANOFSDP_CHECK(state_ == from, .what = "unit " + name() + ": " + verb, .expected = name_of(from),
                 .got = name_of(state_));
  state_ = to;
}

bool Unit::in_compute_precision(const Purpose& purpose) const {
  return !purpose.full_precision || options_.precision.param_dtype == DType::float32;
}

Tensor Unit::whole_parameters() const {
  const std::int64_t n = flat_.layout().padded_numel();
  if (full_precision_.bytes() > 0) return full_precision_.tensor({n});
  return parameters_ == nullptr ? flat_.parameter_storage() : parameters_->memory.slice(0, n);
}

bool Unit::is_fresh(const Purpose& purpose) const {
  if (flat_.parameters().empty()) return true;
  const bool stored = !borrows() && !options_.strategy.shard_optimizer;
  return stored || (shown_version_ == flat_.version() && rounded_ == in_compute_precision(purpose));
}

std::int64_t Unit::bytes_received(const Tensor& wire) const {
  const std::size_t size = size_of(wire.empty() ? DType::float32 : wire.dtype());
  return (mesh_.shard_size() - 1) * flat_.layout().shard_numel() * static_cast<std::int64_t>(size);
}

std::int64_t Unit::bytes_received_across() const {
  const std::int64_t chunk = flat_.gradient_shard().numel() / mesh_.replicas();
  return 2 * (mesh_.replicas() - 1) * chunk * static_cast<std::int64_t>(size_of(DType::float32));
}

void Unit::unshard(const Purpose& purpose) {
  if (state_ == State::gathering || state_ == State::unsharded) return trace("u.");
  go(State::sharded, State::gathering, "unshard");
  NANOFSDP_CHECK(flat_.version() > 0 || flat_.parameters().empty(),
                 .what = "parameters of unit " + name(), .expected = "initialised",
                 .got = "never written",
                 .hint = "call deferred_init, or shard a model that has its values");
  if (is_fresh(purpose)) return trace("u.");
  Stream& stream = *context_.gather;
  rounded_ = in_compute_precision(purpose);
  if (!rounded_ && compute_dtype(options_.precision, context_.device) != DType::float32) {
    const std::int64_t numel = flat_.layout().padded_numel();
    full_precision_ =
        Buffer(context_.ledger, MemoryClass::unsharded_parameters,
               static_cast<std::size_t>(numel) * size_of(DType::float32), context_.device);
  } else if (borrows() && parameters_ == nullptr) {
    parameters_ = &memory_.parameters->acquire();
    stream.wait(parameters_->free);
  }
  const Tensor full = whole_parameters();
  Tensor wire = rounded_ ? memory_.gather_wire : Tensor();
  if (full.dtype() == DType::bfloat16) wire = full;  // it stays as it travels
  if (options_.strategy.shard_optimizer) {
    trace("U.");
    // A copy that is kept serves the next step too: it is training's, whoever asks first.
    const bool kept = !options_.strategy.shard_parameters && rounded_;
    const std::size_t span =
        context_.tracer.begin(stream, Lane::all_gather, name(), bytes_received(wire));
    all_gather(stream, mesh_.gather(), flat_.parameter_shard(), full, wire,
               {.unit = name(), .control = purpose.control && !kept});
    gathered_ = context_.tracer.end(stream, span);
  } else {  // nothing moves, but units compute with rounded numbers
    trace("u.");
    round_to_wire(stream, flat_.parameter_storage(), full, wire);
    gathered_ = stream.record();
  }
  shown_version_ = flat_.version();
}

void Unit::wait_for_unshard() {
  if (state_ == State::unsharded) return;
  go(State::gathering, State::unsharded, "use of parameters");
  context_.tracer.wait(*context_.compute, gathered_);
  flat_.show_parameters(whole_parameters());
}

void Unit::reshard(bool keep) {
  go(State::unsharded, State::sharded, "reshard");
  const bool exact = full_precision_.bytes() > 0;
  const bool discards = !keep && options_.strategy.shard_parameters && parameters_ != nullptr;
  if (!exact && !discards) return trace("r.");
  trace("R.");
  flat_.show_stored_parameters();
  shown_version_ = 0;
  if (exact) {
    context_.compute->synchronize();  // until nobody reads it
    full_precision_ = Buffer();
  }
  if (!discards) return;
  if (options_.poison) {
    ops::fill(*context_.compute,
              {.x = parameters_->memory, .value = std::numeric_limits<float>::quiet_NaN()});
  }
  memory_.parameters->release(*std::exchange(parameters_, nullptr), context_.compute->record());
}

//! [prepare_gradients]
void Unit::prepare_gradients() {
  NANOFSDP_CHECK(!complete_, .what = "unit " + name() + ": backward",
                 .expected = "zero_grad after the last micro-step",
                 .got = "gradients that are sums over ranks already",
                 .hint = "they would be summed once more");
  if (!options_.strategy.shard_gradients) return;
  if (gradients_ == nullptr) {
    gradients_ = &memory_.gradients->acquire();
    context_.tracer.wait(*context_.compute, gradients_->free);
    ops::fill(*context_.compute, {.x = gradients_->memory, .value = 0});
  }
  flat_.show_gradients(gradients_->memory);
}
//! [prepare_gradients]

void Unit::reduce_gradients(bool last_micro_step) {
  go(State::sharded, State::reducing, "reduction of gradients");
  const auto [shard_parameters, shard_gradients, shard_optimizer, reshard, replicate] =
      options_.strategy;
  if (!last_micro_step && (!shard_gradients || options_.no_sync)) return;
  if (mesh_.size() == 1) return;
  trace(shard_optimizer ? "RS." : "AR.");
  flat_.show_stored_gradients();
  Stream& stream = *context_.reduce;
  stream.wait(context_.compute->record());
  const Tensor wire = memory_.reduce_wire;
  const Tensor full = shard_gradients ? gradients_->memory.slice(0, flat_.layout().padded_numel())
                                      : flat_.gradient_storage();
  const comm::Call call{.unit = name()};
  std::int64_t bytes = (shard_optimizer ? 1 : 2) * bytes_received(wire);
  if (replicate && last_micro_step) bytes += bytes_received_across();
  const std::size_t span = context_.tracer.begin(stream, Lane::reduce, name(), bytes);
  if (shard_optimizer) {
    reduce_scatter(stream, mesh_.reduce(), full, wire, options_.reduction, call);
  } else {
    all_reduce(stream, mesh_.reduce(), full, wire, options_.reduction, call);
  }
  //! [landed]
  if (shard_gradients) add_to_shard(stream, full);
  // Once a step, and in float32: it is the sum of all micro-steps that travels.
  if (replicate && last_micro_step) {
    mesh_.replicate().all_reduce(stream, flat_.gradient_shard(), options_.reduction, call);
  }
  //! [landed]
  complete_ = last_micro_step && (!shard_gradients || replicate);
  reduced_ = context_.tracer.end(stream, span);
  if (shard_gradients) memory_.gradients->release(*std::exchange(gradients_, nullptr), reduced_);
}

//! [accumulate]
// From its own chunk, where the sum has landed. What was added up before is not scaled again.
void Unit::add_to_shard(Stream& stream, Tensor full) {
  const Tensor landed = own_chunk(mesh_.reduce(), full), shard = flat_.gradient_shard();
  if (std::exchange(accumulates_, true)) {
    ops::accumulate(stream, {.in = landed, .out = shard});
  } else {
    ops::copy(stream, {.in = landed, .out = shard});
  }
}
//! [accumulate]

void Unit::wait_for_reduction() {
  if (state_ != State::reducing) return;
  go(State::reducing, State::sharded, "end of reduction");
  context_.tracer.wait(*context_.compute, std::exchange(reduced_, Event()));
}

void Unit::zero_grad(bool set_to_none) {
  require_at_rest("zero_grad");
  // Sharded gradients are overwritten by the first reduction, unless they are to be read before;
  // whole ones are added to from the start.
  complete_ = false;
  if (gradients_ != nullptr) {  // still whole, of a step that was given up
    ops::fill(*context_.compute, {.x = gradients_->memory, .value = 0});
  }
  accumulates_ = !set_to_none;
  if (set_to_none && options_.strategy.shard_gradients) return;
  ops::fill(*context_.compute, {.x = flat_.gradient_storage(), .value = 0});
}

void Unit::require_at_rest(const char* why) const {
  NANOFSDP_CHECK(state_ == State::sharded, .what = "unit " + name() + ": " + why,
                 .expected = "sharded", .got = name_of(state_),
                 .hint = "whole copies of the shard would go stale");
}

}  // namespace nanofsdp::fsdp
