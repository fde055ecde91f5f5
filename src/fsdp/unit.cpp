#include "fsdp/unit.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "fsdp/collectives.h"

namespace nanofsdp::fsdp {
namespace {

constexpr std::array<std::string_view, 4> kStateNames = {"sharded", "gathering", "unsharded",
                                                         "reducing"};

std::string name_of(Unit::State state) {
  return std::string(kStateNames[static_cast<std::size_t>(state)]);
}

}  // namespace

Unit::Unit(Context& context, comm::Mesh& mesh, const Options& options, WrappedModule wrapped,
           std::vector<ShardedParameters> rows, SharedMemory& memory,
           std::span<UnitObserver* const> observers)
    : context_(context),
      mesh_(mesh),
      options_(options),
      wrapped_(std::move(wrapped)),
      rows_(std::move(rows)),
      parameters_(context, options, rows_, memory, is_root()),
      gradients_(context, options, rows_.front(), memory, is_root()),
      observers_(observers) {}

void Unit::tell(const UnitEvent& event) const {
  for (UnitObserver* observer : observers_) observer->on(*this, event);
}

void Unit::advance(State from, State to, const char* verb) {
  NANOFSDP_CHECK(state_ == from, .what = "unit " + name() + ": " + verb, .expected = name_of(from),
                 .got = name_of(state_));
  state_ = to;
}

//! [unshard]
bool Unit::unshard(const Purpose& purpose) {
  const bool asked_before = state_ == State::gathering || state_ == State::unsharded;
  if (!asked_before) {
    require_initialised();
    advance(State::sharded, State::gathering, "unshard");
  }
  if (asked_before || parameters_.are_fresh(purpose)) {
    tell({Moment::found});
    return false;
  }
  gather(purpose);
  return true;
}

void Unit::wait_until_unsharded() {
  if (state_ == State::unsharded) return;
  advance(State::gathering, State::unsharded, "use of parameters");
  wait_on_compute(gathered_);
  parameters_.show();
}

void Unit::reshard(bool keep) {
  advance(State::unsharded, State::sharded, "reshard");
  if (!parameters_.are_discarded(keep)) return tell({Moment::kept});
  tell({.moment = Moment::discarded,
        .stream = context_.compute.get(),
        .memory = parameters_.borrowed()});
  parameters_.discard();
}

void Unit::take_gradients() {
  if (!trains()) return;
  wait_on_compute(gradients_.take());
  gradients_.show();
}

void Unit::reduce_gradients(bool last_micro_step) {
  advance(State::sharded, State::reducing, "reduction of gradients");
  take_gradients();  // zeros, if this rank did not use the unit
  gradients_.mark_missing();
  if (mesh_.size() == 1) return;
  Stream& stream = *context_.reduce;
  stream.wait(context_.compute->record());
  const bool scatter = gradients_.are_scattered();
  tell({scatter ? Moment::reduce_scatter_begins : Moment::all_reduce_begins, &stream});
  const Tensor whole = gradients_.whole();
  const comm::Call call{.unit = name()};
  const auto reduce = scatter ? reduce_scatter : all_reduce;
  reduce(stream, mesh_.reduce(), whole, gradients_.wire(), options_.reduction, call);
  //! [landed]
  gradients_.land(stream, own_chunk(mesh_.reduce(), whole));
  if (gradients_.are_summed_across(last_micro_step)) {
    mesh_.replicate().all_reduce(stream, rows_.front().gradient_shard(), options_.reduction, call);
  }
  //! [landed]
  reduced_ = stream.record();
  tell({.moment = Moment::reduction_ends, .stream = &stream, .event = &reduced_});
  gradients_.complete(last_micro_step);
  gradients_.give_back(reduced_);
}
//! [unshard]

bool Unit::prefetch(const Purpose& purpose) {
  if (state_ == State::sharded && !parameters_.have_room()) return false;
  return unshard(purpose);
}

void Unit::gather(const Purpose& purpose) {
  Stream& stream = *context_.gather;
  parameters_.take(stream, purpose);
  const bool travel = parameters_.travel();  // else they are rounded where they are
  tell({travel ? Moment::gather_begins : Moment::found, &stream});
  const comm::Call call{.unit = name(),
                        .control = purpose.control && !parameters_.serve_training(purpose)};
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (parameters_.is_fresh(row, purpose)) continue;
    const Tensor whole = parameters_.whole(row), wire = parameters_.wire(row);
    if (travel) {
      all_gather(stream, mesh_.gather(), rows_[row].parameter_shard(), whole, wire, call);
    } else {
      round_to_wire(stream, rows_[row].parameter_storage(), whole, wire);
    }
    parameters_.filled(row);
  }
  gathered_ = stream.record();
  if (travel) tell({.moment = Moment::gather_ends, .stream = &stream, .event = &gathered_});
}

void Unit::rest(bool keep) {
  if (state_ == State::gathering) wait_until_unsharded();
  if (state_ == State::sharded && parameters_.are_discarded(keep)) state_ = State::unsharded;
  if (state_ == State::unsharded) reshard(keep);
}

bool Unit::owes_reduction(bool last_micro_step) const {
  return state_ == State::sharded && gradients_.are_due(last_micro_step) &&
         gradients_.are_pending();
}

void Unit::wait_for_reduction() {
  if (state_ != State::reducing) return;
  advance(State::reducing, State::sharded, "end of reduction");
  wait_on_compute(std::exchange(reduced_, Event()));
}

void Unit::drop_gradients() { gradients_.give_back(context_.compute->record()); }

void Unit::zero_grad(bool set_to_none) {
  require_at_rest("zero_grad");
  gradients_.forget(set_to_none);
}

void Unit::wait_on_compute(Event event) {
  if (event.state() == nullptr) return;
  tell({.moment = Moment::waits, .stream = context_.compute.get(), .event = &event});
  context_.compute->wait(event);
}

void Unit::require_initialised() const {
  for (const ShardedParameters& row : rows_) {
    NANOFSDP_CHECK(row.version() > 0 || row.parameters().empty(),
                   .what = "parameters of unit " + name(), .expected = "initialised",
                   .got = "never written",
                   .hint = "call deferred_init, or shard a model that has its values");
  }
}

void Unit::require_at_rest(const char* why) const {
  NANOFSDP_CHECK(state_ == State::sharded, .what = "unit " + name() + ": " + why,
                 .expected = "sharded", .got = name_of(state_),
                 .hint = "whole copies of the shard would go stale");
}

}  // namespace nanofsdp::fsdp
