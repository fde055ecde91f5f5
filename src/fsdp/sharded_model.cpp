#include "fsdp/sharded_model.h"

#include <algorithm>
#include <array>
#include <exception>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

// What the options mean on this mesh.
Options settled(Options options, const comm::Mesh& mesh) {
  if (mesh.size() == 1) options.strategy = kNoShard;
  NANOFSDP_CHECK(mesh.replicas() == 1 || options.strategy.replicate_across_groups,
                 .what = "strategy " + name_of(options.strategy),
                 .expected = "one shard group of all ranks",
                 .got = std::to_string(mesh.replicas()) + " groups", .hint = "use hybrid_shard");
  return options;
}

}  // namespace

ShardedModel::ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh,
                           const Options& options)
    : context_(context), model_(model), mesh_(mesh), options_(settled(options, mesh)) {
  units_ = make_units({.strategy = options_.strategy,
                       .precision = options_.precision,
                       .reduction = options_.reduction,
                       .no_sync = options_.no_sync,
                       .poison = options_.poison});
  progress_.resize(units_.size());
  for (Unit& unit : units_) attach(unit);
}

std::vector<Unit> ShardedModel::make_units(const UnitOptions& unit_options) {
  std::vector<WrappedModule> wrapped = wrap(model_, options_.wrap_policy);
  // What is stored whole is what units compute with: in other numbers, a shard is enough.
  ShardingStrategy stored = options_.strategy;
  if (borrows_parameters(stored, options_.precision)) {
    stored.shard_parameters = stored.shard_optimizer;
  }
  const std::int64_t alignment = alignment_of(options_, mesh_.replicas());
  std::vector<FlatParameter> flats;
  std::int64_t largest = 0;
  for (const WrappedModule& w : wrapped) {
    for (nn::Parameter* parameter : w.parameters) {
      if (!options_.sync_module_states || parameter->data.empty()) continue;
      context_.compute->wait(mesh_.world().broadcast(*context_.compute, parameter->data, 0,
                                                     {.unit = parameter->name, .control = true}));
    }
    flats.emplace_back(context_, w.parameters, mesh_.shard_rank(), mesh_.shard_size(), stored,
                       alignment);
    if (&w != &wrapped.back()) largest = std::max(largest, flats.back().layout().padded_numel());
  }

  const std::int64_t root = flats.back().layout().padded_numel();
  const auto wire = [&](DType travels, DType kept) {
    if (travels == kept) return Buffer();
    const auto bytes = static_cast<std::size_t>(std::max(largest, root)) * size_of(travels);
    return Buffer(context_.ledger, MemoryClass::communication, bytes, context_.device);
  };
  gather_wire_ =
      wire(options_.precision.param_dtype, compute_dtype(options_.precision, context_.device));
  reduce_wire_ = wire(options_.precision.reduce_dtype, DType::float32);

  const UnitMemory memory =
      make_memory(pool_slots(options_, static_cast<int>(wrapped.size()) - 1), largest);
  const UnitMemory root_memory = make_memory({1, 1}, root);

  std::vector<Unit> units;
  units.reserve(wrapped.size());
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    units.emplace_back(context_, mesh_, unit_options, std::move(wrapped[i]), std::move(flats[i]),
                       i + 1 < wrapped.size() ? memory : root_memory);
  }
  return units;
}

std::int64_t alignment_of(const Options& options, int replicas) {
  return std::lcm(options.alignment, replicas);
}

PoolSlots pool_slots(const Options& options, int blocks) {
  const ShardingStrategy& strategy = options.strategy;
  const bool discards = strategy.shard_parameters && strategy.reshard_after_forward;
  return {
      .parameters = discards && options.pool ? std::max(2, 1 + options.forward_prefetch) : blocks,
      .gradients = options.no_sync || !options.pool ? blocks : 2};
}

UnitMemory ShardedModel::make_memory(const PoolSlots& slots, std::int64_t numel) {
  const auto pool = [&](MemoryClass memory_class, int count, DType dtype) {
    pools_.push_back(std::make_unique<BufferPool>(context_, memory_class, count, numel, dtype));
    return pools_.back().get();
  };
  const auto all = [](const Buffer& wire) {
    const auto numel = static_cast<std::int64_t>(wire.bytes() / size_of(DType::bfloat16));
    return numel == 0 ? Tensor() : wire.tensor({numel}, DType::bfloat16);
  };
  UnitMemory memory{.gather_wire = all(gather_wire_), .reduce_wire = all(reduce_wire_)};
  if (borrows_parameters(options_.strategy, options_.precision)) {
    memory.parameters = pool(MemoryClass::unsharded_parameters, slots.parameters,
                             compute_dtype(options_.precision, context_.device));
  }
  if (options_.strategy.shard_gradients) {
    memory.gradients = pool(MemoryClass::unsharded_gradients, slots.gradients, DType::float32);
  }
  return memory;
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
  for (Unit& unit : units_) {
    unit.module().hooks = {};
    for (nn::Parameter* parameter : unit.flat().parameters()) {
      parameter->post_accumulate_grad = nullptr;
      parameter->data = parameter->grad = Tensor();
    }
  }
}

void ShardedModel::attach(Unit& unit) {
  nn::Module::Hooks& hooks = unit.module().hooks;
  NANOFSDP_CHECK(!hooks.pre_forward, .what = "hooks of unit " + unit.name(), .expected = "free",
                 .got = "taken", .hint = "a model can be sharded once");
  //! [attach]
  hooks.pre_forward = [this, &unit] { pre_forward(unit); };
  hooks.post_forward = [this, &unit] { post_forward(unit); };
  hooks.pre_backward = [this, &unit] { pre_backward(unit); };
  for (nn::Parameter* parameter : unit.flat().parameters()) {
    if (!parameter->requires_grad) continue;
    ++progress(unit).learning;
    parameter->post_accumulate_grad = [this, &unit] { gradient_ready(unit); };
  }
  //! [attach]
  // Without a gradient to wait for, the unit is done when its module is.
  if (progress(unit).learning == 0) hooks.post_backward = [this, &unit] { post_backward(unit); };
}

void ShardedModel::go(Unit& unit, TrainingState from, TrainingState to) {
  static constexpr std::array kNames = {"idle", "forward", "before backward", "after backward"};
  TrainingState& state = progress(unit).state;
  NANOFSDP_CHECK(state == from, .what = "unit " + unit.name(),
                 .expected = kNames[static_cast<std::size_t>(from)],
                 .got = kNames[static_cast<std::size_t>(state)],
                 .hint = "one forward and one backward a pass, in this order");
  state = to;
}

Tensor ShardedModel::forward(nn::Tape& tape, Tensor x) {
  training_ = tape.training();
  tape.on_backward_end([this] { end_of_backward(); });
  return model_.forward(tape, x);
}

void ShardedModel::backward(nn::Tape& tape, Tensor dy, bool last_micro_step) {
  last_micro_step_ = last_micro_step;
  model_.backward(tape, dy);
  tape.end_backward();
}

void ShardedModel::pre_forward(Unit& unit) {
  if (progress(unit).state == TrainingState::pre_backward) return;  // recompute
  go(unit, TrainingState::idle, TrainingState::forward);
  const Purpose purpose{.control = !training_};
  if (is_root(unit)) {
    order_.begin();
    context_.gather->wait(context_.compute->record());  // the optimizer has written the shards
  }
  order_.record(unit);
  unit.unshard(purpose);
  for (int i = 1; i <= options_.forward_prefetch; ++i) {
    if (Unit* next = order_.next_in_forward(unit, static_cast<std::size_t>(i))) {
      next->unshard(purpose);
    }
  }
  unit.wait_for_unshard();
  begin_span(unit, "forward ");
}

//! [post_forward]
void ShardedModel::post_forward(Unit& unit) {
  if (progress(unit).state == TrainingState::pre_backward) return;  // recompute
  end_span(unit);
  go(unit, TrainingState::forward, TrainingState::idle);
  if (!is_root(unit)) context_.tracer.issue("F." + unit.name());
  // Backward starts with the root, so it stays; after an evaluation nothing is needed again.
  const bool stays = is_root(unit) || !options_.strategy.reshard_after_forward;
  unit.reshard(/*keep=*/training_ && stays);
}
//! [post_forward]

void ShardedModel::prefetch_in_backward(const Unit& unit, BackwardPrefetch moment) {
  if (options_.backward_prefetch != moment || !options_.strategy.shard_parameters) return;
  if (Unit* next = order_.next_in_backward(unit)) next->unshard();
}

void ShardedModel::pre_backward(Unit& unit) {
  go(unit, TrainingState::idle, TrainingState::pre_backward);
  progress(unit).missing = progress(unit).learning;
  unit.unshard();
  prefetch_in_backward(unit, BackwardPrefetch::pre);
  unit.wait_for_unshard();
  if (progress(unit).learning > 0) unit.prepare_gradients();
  begin_span(unit, "backward ");
}

void ShardedModel::gradient_ready(Unit& unit) {
  if (--progress(unit).missing == 0) post_backward(unit);
}

void ShardedModel::post_backward(Unit& unit) {
  go(unit, TrainingState::pre_backward, TrainingState::post_backward);
  end_span(unit);
  // FSDP's shard_grad_op under no_sync: the next forward finds the unit as it is.
  const bool stays = options_.no_sync && !last_micro_step_;
  unit.reshard(/*keep=*/stays && !options_.strategy.reshard_after_forward);
  if (!is_root(unit)) prefetch_in_backward(unit, BackwardPrefetch::post);
  if (progress(unit).learning > 0) unit.reduce_gradients(last_micro_step_);
}

void ShardedModel::end_of_backward() {
  // A unit with a parameter that this pass did not use: its gradient is zero here, but other ranks
  // may have used it. In a fixed order, so that all ranks call the same collectives.
  for (Unit& unit : units_) {
    if (progress(unit).state == TrainingState::pre_backward) post_backward(unit);
  }
  for (Unit& unit : units_) {
    unit.wait_for_reduction();
    progress(unit).state = TrainingState::idle;
  }
}

void ShardedModel::begin_span(Unit& unit, const char* pass) {
  progress(unit).span = context_.tracer.begin(*context_.compute, Lane::compute, pass + unit.name());
}

void ShardedModel::end_span(Unit& unit) {
  context_.tracer.end(*context_.compute, progress(unit).span);
}

void ShardedModel::zero_grad(bool set_to_none) {
  for (Unit& unit : units_) unit.zero_grad(set_to_none);
}

void ShardedModel::summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit) {
  context_.gather->wait(context_.compute->record());
  for (Unit& unit : units_) {
    unit.unshard({.control = true, .full_precision = true});
    unit.wait_for_unshard();
    for (const nn::Parameter* parameter : unit.flat().parameters()) visit(*parameter);
    unit.reshard();
  }
}

}  // namespace nanofsdp::fsdp
