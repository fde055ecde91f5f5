#include "fsdp/fully_shard.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

// What the options mean on this mesh.
Options settled(Options options, const comm::Mesh& mesh) {
  if (mesh.size() == 1) options.strategy = ShardingStrategy::no_shard;
  NANOFSDP_CHECK(mesh.replicas() == 1 || options.sharding().replicates,
                 .what = "strategy " + name_of(options.strategy),
                 .expected = "one shard group of all ranks",
                 .got = std::to_string(mesh.replicas()) + " groups", .hint = "use hybrid_shard");
  return options;
}

Whole whole_numel(std::span<const ShardedParameters> rows) {
  Whole numel;
  for (const ShardedParameters& row : rows) {
    numel.parameters += row.layout().padded_numel();
    if (row.trains()) numel.gradients += row.layout().padded_numel();
  }
  return numel;
}

}  // namespace

ShardedModel::ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh,
                           const Options& options)
    : context_(context),
      model_(model),
      mesh_(mesh),
      options_(settled(options, mesh)),
      tracing_(context.tracer, mesh),
      observers_{&tracing_} {
  if (options_.poison) observers_.push_back(&poison_);
  std::vector<WrappedModule> wrapped = wrap(model_, options_.wrap_policy);
  std::vector<Rows> rows = shard(wrapped);
  make_units(std::move(wrapped), std::move(rows));
  require_free_hooks();
  for (Unit& unit : units_) attach_forward(unit), attach_backward(unit);
  end_of_pass_ = std::make_shared<nn::Tape::EndOfPass>([this](bool done) { end_pass(done); });
}

std::vector<ShardedModel::Rows> ShardedModel::shard(std::span<const WrappedModule> wrapped) {
  std::vector<Rows> units;
  for (const WrappedModule& w : wrapped) {
    for (const nn::Parameter* p : w.parameters) {
      if (!options_.sync_module_states || p->data.empty()) continue;
      context_.compute->wait(mesh_.world().broadcast(*context_.compute, p->data, 0,
                                                     {.unit = p->name, .control = true}));
    }
    Rows& rows = units.emplace_back();
    for (std::vector<nn::Parameter*>& row : rows_of(w.parameters)) {
      rows.emplace_back(context_, std::move(row), mesh_.shard_rank(), mesh_.shard_size(),
                        options_.kept(), alignment_of(options_, mesh_.replicas()));
    }
  }
  return units;
}

void ShardedModel::make_units(std::vector<WrappedModule> wrapped, std::vector<Rows> rows) {
  const std::size_t n = wrapped.size();
  Whole largest;
  int depth = 0;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const Whole numel = whole_numel(rows[i]);
    largest = {std::max(largest.parameters, numel.parameters),
               std::max(largest.gradients, numel.gradients)};
    depth = std::max(depth, wrapped[i].depth);
  }
  memory_ = std::make_unique<SharedMemory>(context_, options_,
                                           pool_slots(options_, static_cast<int>(n) - 1, depth),
                                           largest, whole_numel(rows.back()));
  units_.reserve(n);
  backward_order_.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = n - 1 - static_cast<std::size_t>(wrapped[i].entered);
    backward_order_[at] = &units_.emplace_back(context_, mesh_, options_, std::move(wrapped[i]),
                                               std::move(rows[i]), *memory_, observers_);
  }
}

std::int64_t alignment_of(const Options& options, int replicas) {
  return std::lcm(options.alignment, replicas);
}

Whole pool_slots(const Options& options, int blocks, int depth) {
  const bool discards = options.sharding().parameters && options.sharding().reshards_after_forward;
  const std::int64_t around = std::max(depth, 1);
  return {.parameters =
              discards && options.pool ? around + std::max(1, options.forward_prefetch) : blocks,
          .gradients = options.no_sync || !options.pool ? blocks : around + 1};
}

ShardedModel::~ShardedModel() {
  // Collectives in flight read and write memory that is about to go.
  if (std::uncaught_exceptions() > 0) mesh_.abort("this rank failed");
  for (Stream* stream : {context_.gather.get(), context_.reduce.get()}) {
    try {
      stream->synchronize();
    } catch (...) {  // whoever waited for the failed collective has reported it
    }
  }
  for (Unit& unit : units_) unit.module().hooks = {};
  for (const ShardedParameters* row : rows()) {
    for (nn::Parameter* parameter : row->parameters()) {
      parameter->data = Tensor();
      parameter->show_grad(Tensor());
    }
  }
}

void ShardedModel::require_free_hooks() const {
  for (const Unit& unit : units_) {
    NANOFSDP_CHECK(!unit.module().hooks.pre_forward, .what = "hooks of unit " + unit.name(),
                   .expected = "free", .got = "taken", .hint = "a model can be sharded once");
  }
}

//! [attach]
void ShardedModel::attach_forward(Unit& unit) {
  nn::Module::Hooks& on = unit.module().hooks;
  on.pre_forward = [this, &unit](nn::Tape& tape) {
    begin_pass(tape);
    const Purpose purpose{.control = !tape.training()};
    if (unit.unshard(purpose)) schedule_.gathers(unit);
    schedule_.begin_forward(unit);
    prefetch_in_forward(purpose);
    unit.wait_until_unsharded();
    unit.tell({Moment::forward_begins, &tape.stream()});
  };
  on.post_forward = [this, &unit](nn::Tape& tape) {
    unit.tell({Moment::forward_ends, &tape.stream()});
    schedule_.end_forward(unit);
    unit.reshard(/*keep=*/tape.training() && keeps_after_forward(unit));
    if (tape.training() && !schedule_.in_backward()) ++unit.pending_calls;
  };
}

void ShardedModel::attach_backward(Unit& unit) {
  nn::Module::Hooks& on = unit.module().hooks;
  on.pre_backward = [this, &unit](nn::Tape& tape) {
    schedule_.begin_backward(unit);
    unit.unshard();
    prefetch_in_backward(BackwardPrefetch::pre);
    unit.wait_until_unsharded();
    unit.take_gradients();
    unit.tell({Moment::backward_begins, &tape.stream()});
  };
  on.post_backward = [this, &unit](nn::Tape& tape) {
    unit.tell({Moment::backward_ends, &tape.stream()});
    unit.reshard(/*keep=*/keeps_after_backward());
    prefetch_in_backward(BackwardPrefetch::post);
    if (--unit.pending_calls == 0) reduce_in_order(unit);
  };
}

void ShardedModel::backward(nn::Tape& tape, Tensor dy, bool last_micro_step) {
  last_micro_step_ = last_micro_step;
  model_.backward(tape, dy);
  tape.end_backward();
}

void ShardedModel::end_pass(bool backward) {
  for (Unit* unit : backward_order_) {
    unit->rest(/*keep=*/backward && keeps_after_backward() && unit->pending_calls == 0);
    unit->pending_calls = 0;
    if (backward && unit->owes_reduction(last_micro_step_)) {
      unit->reduce_gradients(last_micro_step_);
    } else if (!options_.no_sync) {
      unit->drop_gradients();
    }
  }
  for (Unit* unit : backward_order_) {
    unit->wait_for_reduction();
    if (backward && last_micro_step_) unit->settle_gradients();
  }
  memory_->shrink();
}
//! [attach]

void ShardedModel::begin_pass(nn::Tape& tape) {
  if (!tape.at_end(end_of_pass_)) return;
  schedule_.begin();
  reduced_ = 0;
  done_.clear();
  context_.gather->wait(context_.compute->record());  // the optimizer has written the shards
}

// Backward starts with the root, so it stays; after an evaluation nothing is needed again.
bool ShardedModel::keeps_after_forward(const Unit& unit) const {
  return unit.is_root() || !options_.sharding().reshards_after_forward;
}

// FSDP's shard_grad_op under no_sync: the next forward gathers nothing.
bool ShardedModel::keeps_after_backward() const {
  return options_.no_sync && !last_micro_step_ && !options_.sharding().reshards_after_forward;
}

void ShardedModel::prefetch_in_forward(const Purpose& purpose) {
  for (int i = 1; i <= options_.forward_prefetch; ++i) {
    if (Unit* next = schedule_.next_in_forward(static_cast<std::size_t>(i))) {
      if (next->prefetch(purpose)) schedule_.gathers(*next);
    }
  }
}

void ShardedModel::prefetch_in_backward(BackwardPrefetch moment) {
  if (options_.backward_prefetch != moment || !options_.sharding().parameters) return;
  if (Unit* next = schedule_.next_in_backward()) next->prefetch();
}

// Where parameters are gathered, all ranks use the same units in the same order. Where they are
// not, a rank may skip a unit that others use: then all keep to one order, and who is early waits.
void ShardedModel::reduce_in_order(Unit& unit) {
  done_.push_back(&unit);
  const auto reduce = [&](Unit& done) {
    if (done.owes_reduction(last_micro_step_)) done.reduce_gradients(last_micro_step_);
  };
  if (options_.sharding().parameters) return reduce(unit);
  for (; reduced_ < backward_order_.size(); ++reduced_) {
    Unit& next = *backward_order_[reduced_];
    if (next.trains() && std::ranges::find(done_, &next) == done_.end()) return;
    reduce(next);
  }
}

std::vector<ShardedParameters*> ShardedModel::rows() {
  std::vector<ShardedParameters*> all;
  for (Unit& unit : units_) {
    for (ShardedParameters& row : unit.rows()) all.push_back(&row);
  }
  return all;
}

void ShardedModel::zero_grad(bool set_to_none) {
  for (Unit& unit : units_) unit.zero_grad(set_to_none);
}

void ShardedModel::summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit) {
  context_.gather->wait(context_.compute->record());
  for (Unit& unit : units_) {
    unit.unshard({.control = true, .full_precision = true});
    unit.wait_until_unsharded();
    for (const ShardedParameters& row : unit.rows()) {
      for (const nn::Parameter* parameter : row.parameters()) visit(*parameter);
    }
    unit.reshard();
  }
}

}  // namespace nanofsdp::fsdp
