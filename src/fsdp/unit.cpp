#include "fsdp/unit.h"

#include <array>
#include <map>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

std::string name_of(Unit::State state) {
  constexpr std::array kNames = {"sharded", "gathering", "unsharded", "reducing"};
  return kNames[static_cast<std::size_t>(state)];
}

// The rows of a unit, in the order of Unit::rows(). The row of trainable parameters exists even if
// it is empty.
std::vector<ShardedParameters> rows_of(std::span<nn::Parameter* const> parameters, Context& context,
                                       comm::Mesh& mesh, const Options& options) {
  std::map<std::pair<bool, DType>, std::vector<nn::Parameter*>> members{{{false, {}}, {}}};
  for (nn::Parameter* p : parameters) members[{!p->requires_grad, p->dtype}].push_back(p);
  std::vector<ShardedParameters> rows;
  const int stored = options.sharding().splits_update ? mesh.replicas() : 1;
  const int replica = mesh.rank() / mesh.shard_size() % stored;
  for (const auto& [kind, row] : members)
    rows.emplace_back(context, row, mesh.gather().rank() * stored + replica,
                      mesh.shard_size() * stored, options.at_rest(kind.second, context.device),
                      options.alignment_on(mesh.replicas() / stored), options.layout, stored);
  return rows;
}

}  // namespace

Unit::Unit(Context& context, comm::Mesh& mesh, const Options& options, WrappedModule wrapped,
           WholeMemory& parameters, WholeMemory& gradients)
    : reshard_after_forward(wrapped.options.reshard_after_forward.value_or(
          options.sharding().reshards_after_forward && wrapped.depth > 0)),
      context_(context),
      mesh_(mesh),
      options_(options),
      wrapped_(std::move(wrapped)),
      rows_(rows_of(wrapped_.parameters, context, mesh, options)),
      parameters_(context, options, mesh, rows_, parameters, is_root()),
      gradients_(context, options, rows_.front(), gradients, is_root()) {}

void Unit::advance(State from, State to, const char* verb) {
  NANOFSDP_CHECK(state_ == from, .what = "unit " + name() + ": " + verb, .expected = name_of(from),
                 .got = name_of(state_));
  state_ = to;
}

//! [unshard]
void Unit::unshard(Purpose purpose) {
  const bool asked_before = state_ == State::gathering || state_ == State::unsharded;
  if (asked_before && parameters_.are_fresh()) return context_.tracer.issue("u." + name());
  if (asked_before) end_of_use(/*keep=*/false);  // a shard was written after the all-gather
  require_initialised();
  advance(State::sharded, State::gathering, "unshard");
  if (parameters_.are_fresh()) return context_.tracer.issue("u." + name());
  gather(purpose);
}

void Unit::wait_until_unsharded() {
  if (state_ == State::unsharded) return;
  advance(State::gathering, State::unsharded, "use of parameters");
  context_.tracer.wait(*context_.compute, gathered_);
  parameters_.show();
}

void Unit::reshard(bool keep) {
  advance(State::unsharded, State::sharded, "reshard");
  if (!parameters_.are_discarded(keep)) return context_.tracer.issue("r." + name());
  context_.tracer.issue("R." + name());
  parameters_.discard(*context_.compute);
}

void Unit::take_gradients() {
  if (!trains() || gradients_.stay()) return;
  took_gradients = true;
  context_.tracer.wait(*context_.compute, gradients_.take());
  gradients_.show();
}

void Unit::reduce_gradients(bool last_micro_step) {
  const Reduction how{
      .in_group = requires_gradient_sync && (last_micro_step || !options_.accumulates()),
      .across = options_.sharding().replicates && requires_all_reduce && last_micro_step};
  if (state_ == State::reducing || !gradients_.are_due(how)) return;
  advance(State::sharded, State::reducing, "reduction of gradients");
  if (how.in_group) {
    take_gradients();  // zeros, if this rank did not use the unit
    gradients_.mark_missing();
  }
  if (mesh_.size() == 1) return gradients_.give_back({});
  Stream& stream = *context_.reduce;
  stream.wait(context_.compute->record());
  context_.tracer.issue((options_.sharding().optimizer ? "RS." : "AR.") + name());
  const std::size_t span = context_.tracer.begin(stream, Lane::reduce, name());
  const std::int64_t before = mesh_.traffic().bytes_received;
  gradients_.reduce(stream, mesh_, how, {.unit = name()});
  reduced_ = context_.tracer.end(stream, span, mesh_.traffic().bytes_received - before);
  if (how.in_group) gradients_.give_back(reduced_);
}
//! [unshard]

void Unit::gather(Purpose purpose) {
  Stream& stream = *context_.gather;
  parameters_.take(stream);
  const bool sends = parameters_.needs_all_gather();
  context_.tracer.issue((sends ? "U." : "u.") + name());
  const std::size_t span = sends ? context_.tracer.begin(stream, Lane::all_gather, name()) : 0;
  const std::int64_t before = mesh_.traffic().bytes_received;
  // If the copy stays unsharded, the next training step uses it too. So its all-gather counts as
  // training traffic, even if an evaluation asks for it first.
  const bool control = purpose == Purpose::evaluation && options_.sharding().parameters;
  parameters_.gather(stream, {.unit = name(), .control = control});
  gathered_ = context_.tracer.end(stream, span, mesh_.traffic().bytes_received - before);
  gathered_since_last_forward = true;
}

void Unit::end_of_use(bool keep) {
  parameters_.forget_slice();
  if (state_ == State::gathering) wait_until_unsharded();
  if (state_ == State::sharded && parameters_.are_discarded(keep)) state_ = State::unsharded;
  if (state_ == State::unsharded) reshard(keep);
  for (ShardedParameters& row : rows_) row.show_parameters();
}

void Unit::wait_for_reduction() {
  if (state_ != State::reducing) return;
  advance(State::reducing, State::sharded, "end of reduction");
  context_.tracer.wait(*context_.compute, std::exchange(reduced_, Event()));
}

void Unit::require_initialised() const {
  std::string without;
  for (const ShardedParameters& row : rows_) {
    for (std::size_t i = 0; i < row.parameters().size(); ++i)
      if (!row.has_value(i)) without += " " + row.parameters()[i]->name;
  }
  NANOFSDP_CHECK(without.empty(), .what = "parameters of unit " + name(), .expected = "initialised",
                 .got = "no values of" + without,
                 .hint = "call deferred_init, or shard a model that has its values");
}

void Unit::require_at_rest(const char* why, bool or_under_way) const {
  const bool rests = state_ == State::sharded && pending_calls == 0;
  const bool under_way = state_ == State::sharded || state_ == State::gathering;
  NANOFSDP_CHECK(rests || (or_under_way && under_way), .what = "unit " + name() + ": " + why,
                 .expected = "sharded, with no backward to come",
                 .got = name_of(state_) + ", " + std::to_string(pending_calls) + " to come",
                 .hint = "Tape::end() gives a pass up");
}

}  // namespace nanofsdp::fsdp
