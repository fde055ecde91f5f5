#include "fsdp/unit.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

constexpr std::array<std::string_view, 4> kStateNames = {"sharded", "gathering", "unsharded",
                                                         "reducing"};

std::string name_of(Unit::State state) {
  return std::string(kStateNames[static_cast<std::size_t>(state)]);
}

}  // namespace

Unit::Unit(Context& context, comm::Mesh& mesh, const UnitOptions& options, WrappedModule wrapped,
           FlatParameter flat, UnitPools pools)
    : context_(context),
      mesh_(mesh),
      options_(options),
      wrapped_(std::move(wrapped)),
      flat_(std::move(flat)),
      pools_(pools) {}

void Unit::go(State from, State to, const char* verb) {
  NANOFSDP_CHECK(state_ == from, .what = "unit " + name() + ": " + verb, .expected = name_of(from),
                 .got = name_of(state_));
  state_ = to;
}

void Unit::unshard(bool control) {
  if (state_ == State::gathering || state_ == State::unsharded) return trace("u.");
  go(State::sharded, State::gathering, "unshard");
  if (!options_.strategy.shard_parameters) return trace("u.");
  trace("U.");
  Stream& stream = *context_.gather;
  parameters_ = &pools_.parameters->acquire();
  stream.wait(parameters_->free);
  const Tensor full = parameters_->memory.slice(0, flat_.layout().padded_numel());
  gathered_ = mesh_.gather().all_gather(stream, flat_.parameter_shard(), full,
                                        {.unit = name(), .control = control});
}

void Unit::wait_for_unshard() {
  if (state_ == State::unsharded) return;
  go(State::gathering, State::unsharded, "use of parameters");
  if (!options_.strategy.shard_parameters) return;
  context_.compute->wait(gathered_);
  flat_.show_parameters(parameters_->memory);
}

void Unit::reshard() {
  go(State::unsharded, State::sharded, "reshard");
  if (!options_.strategy.shard_parameters) return trace("r.");
  trace("R.");
  flat_.show_stored_parameters();
  if (options_.poison) {
    ops::fill(*context_.compute,
              {.x = parameters_->memory, .value = std::numeric_limits<float>::quiet_NaN()});
  }
  pools_.parameters->release(*std::exchange(parameters_, nullptr), context_.compute->record());
}

void Unit::prepare_gradients() {
  if (!options_.strategy.shard_gradients) return;
  gradients_ = &pools_.gradients->acquire();
  context_.compute->wait(gradients_->free);
  ops::fill(*context_.compute, {.x = gradients_->memory, .value = 0});
  flat_.show_gradients(gradients_->memory);
}

void Unit::reduce_gradients(bool last_micro_step) {
  go(State::sharded, State::reducing, "reduction of gradients");
  Stream& stream = *context_.reduce;
  if (!options_.strategy.shard_gradients) {
    if (!last_micro_step || mesh_.size() == 1) return;
    trace("AR.");
    stream.wait(context_.compute->record());
    reduced_ = mesh_.reduce().all_reduce(stream, flat_.gradient_storage(), options_.reduction,
                                         {.unit = name()});
    return;
  }
  trace("RS.");
  flat_.show_stored_gradients();
  // In place: the sum lands in this rank's chunk of the borrowed memory, and is added from there.
  // What was added up before is never scaled again.
  const FlatLayout& layout = flat_.layout();
  const Tensor full = gradients_->memory.slice(0, layout.padded_numel());
  const Tensor landing = full.slice(mesh_.rank() * layout.shard_numel(), layout.shard_numel());
  stream.wait(context_.compute->record());
  mesh_.reduce().reduce_scatter(stream, full, landing, options_.reduction, {.unit = name()});
  if (std::exchange(accumulates_, true)) {
    ops::accumulate(stream, {.in = landing, .out = flat_.gradient_shard()});
  } else {
    ops::copy(stream, {.in = landing, .out = flat_.gradient_shard()});
  }
  reduced_ = stream.record();
  pools_.gradients->release(*std::exchange(gradients_, nullptr), reduced_);
}

void Unit::wait_for_reduction() {
  if (state_ != State::reducing) return;
  go(State::reducing, State::sharded, "end of reduction");
  context_.compute->wait(std::exchange(reduced_, Event()));
}

void Unit::zero_grad() {
  require_at_rest("zero_grad");
  accumulates_ = false;
  // Sharded gradients are overwritten by the first reduction; whole ones are added to from the
  // start.
  if (!options_.strategy.shard_gradients) {
    ops::fill(*context_.compute, {.x = flat_.gradient_storage(), .value = 0});
  }
}

void Unit::require_at_rest(const char* why) const {
  NANOFSDP_CHECK(state_ == State::sharded, .what = "unit " + name() + ": " + why,
                 .expected = "sharded", .got = name_of(state_),
                 .hint = "whole copies of the shard would go stale");
}

}  // namespace nanofsdp::fsdp
