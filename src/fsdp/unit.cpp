#include "fsdp/unit.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

using enum UnitEvent::Kind;

std::string name_of(Unit::State state) {
  constexpr std::array kNames = {"sharded", "gathering", "unsharded", "reducing"};
  return kNames[static_cast<std::size_t>(state)];
}

}  // namespace

Unit::Unit(Context& context, comm::Mesh& mesh, const Options& options, WrappedModule wrapped,
           SharedMemory& memory, std::span<UnitObserver* const> observers)
    : context_(context),
      mesh_(mesh),
      options_(options),
      wrapped_(std::move(wrapped)),
      rows_(shard(context, wrapped_.parameters, mesh.shard_rank(), mesh.shard_size(),
                  options.kept(), options.alignment_on(mesh.replicas()), options.layout)),
      parameters_(context, options, mesh, rows_, memory, is_root()),
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
bool Unit::unshard(Purpose purpose) {
  const bool asked_before = state_ == State::gathering || state_ == State::unsharded;
  if (!asked_before) {
    require_initialised();
    advance(State::sharded, State::gathering, "unshard");
  }
  if (asked_before || parameters_.are_fresh()) {
    tell({.verb = "u."});
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
  if (!parameters_.are_discarded(keep)) return tell({.verb = "r."});
  tell({.verb = "R.", .stream = context_.compute.get(), .memory = parameters_.borrowed()});
  parameters_.discard(context_.compute->record());
}

void Unit::take_gradients() {
  if (!trains()) return;
  wait_on_compute(gradients_.take());
  gradients_.show();
}

void Unit::reduce_gradients(bool last_micro_step) {
  if (!requires_gradient_sync) return;
  if (state_ == State::reducing || !gradients_.are_due(last_micro_step)) return;
  advance(State::sharded, State::reducing, "reduction of gradients");
  take_gradients();  // zeros, if this rank did not use the unit
  gradients_.mark_missing();
  if (mesh_.size() == 1) return;
  Stream& stream = *context_.reduce;
  stream.wait(context_.compute->record());
  const char* verb = gradients_.are_scattered() ? "RS." : "AR.";
  tell({.kind = begins, .verb = verb, .lane = Lane::reduce, .stream = &stream});
  gradients_.reduce(stream, mesh_, last_micro_step, {.unit = name()});
  reduced_ = stream.record();
  tell({.kind = ends, .stream = &stream, .event = &reduced_});
  gradients_.give_back(reduced_);
}
//! [unshard]

bool Unit::prefetch(Purpose purpose) {
  if (state_ == State::sharded && !parameters_.have_room()) return false;
  return unshard(purpose);
}

void Unit::gather(Purpose purpose) {
  Stream& stream = *context_.gather;
  parameters_.take(stream);
  if (parameters_.travel()) {
    tell({.kind = begins, .verb = "U.", .lane = Lane::all_gather, .stream = &stream});
  } else {
    tell({.verb = "u."});
  }
  // A copy that stays serves the next step too: it is training's, whoever asks first.
  const bool control = purpose == Purpose::evaluation && options_.sharding().parameters;
  parameters_.gather(stream, {.unit = name(), .control = control});
  gathered_ = stream.record();
  if (parameters_.travel()) tell({.kind = ends, .stream = &stream, .event = &gathered_});
}

void Unit::rest(bool keep) {
  parameters_.forget_slice();
  if (state_ == State::gathering) wait_until_unsharded();
  if (state_ == State::sharded && parameters_.are_discarded(keep)) state_ = State::unsharded;
  if (state_ == State::unsharded) reshard(keep);
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
  tell({.kind = waits, .stream = context_.compute.get(), .event = &event});
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
