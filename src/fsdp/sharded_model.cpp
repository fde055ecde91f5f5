#include "fsdp/sharded_model.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

// Two slots: a unit computes out of one while the next is gathered into, or the one before is
// reduced out of, the other.
constexpr int kSlots = 2;

}  // namespace

ShardedModel::ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh,
                           const Options& options)
    : context_(context), model_(model), mesh_(mesh), options_(options) {
  const int rank = mesh.rank(), world = mesh.size();
  if (world == 1) options_.strategy = kNoShard;
  const UnitOptions unit_options{
      .strategy = options_.strategy, .reduction = options_.reduction, .poison = options_.poison};
  std::vector<WrappedModule> wrapped = wrap(model, options_.wrap_policy);
  std::vector<FlatParameter> flats;
  for (const WrappedModule& w : wrapped) {
    flats.emplace_back(context, w.parameters, rank, world, options_.strategy, options_.alignment);
  }
  // The root keeps its slots from its forward to its backward, so it has its own.
  std::int64_t largest = 0;
  for (std::size_t i = 0; i + 1 < flats.size(); ++i) {
    largest = std::max(largest, flats[i].layout().padded_numel());
  }
  const UnitPools blocks = make_pools(kSlots, largest);
  const UnitPools root = make_pools(1, flats.back().layout().padded_numel());
  units_.reserve(wrapped.size());
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    units_.emplace_back(context_, mesh_, unit_options, std::move(wrapped[i]), std::move(flats[i]),
                        i + 1 < wrapped.size() ? blocks : root);
  }
  progress_.resize(units_.size());
  for (Unit& unit : units_) attach(unit);
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

UnitPools ShardedModel::make_pools(int slots, std::int64_t numel) {
  const auto pool = [&](MemoryClass memory_class) {
    pools_.push_back(std::make_unique<BufferPool>(context_, memory_class, slots, numel));
    return pools_.back().get();
  };
  UnitPools pools;
  if (options_.strategy.shard_parameters)
    pools.parameters = pool(MemoryClass::unsharded_parameters);
  if (options_.strategy.shard_gradients) pools.gradients = pool(MemoryClass::unsharded_gradients);
  return pools;
}

void ShardedModel::attach(Unit& unit) {
  nn::Module::Hooks& hooks = unit.module().hooks;
  NANOFSDP_CHECK(!hooks.pre_forward, .what = "hooks of unit " + unit.name(), .expected = "free",
                 .got = "taken", .hint = "a model can be sharded once");
  hooks.pre_forward = [this, &unit] { pre_forward(unit); };
  hooks.post_forward = [this, &unit] { post_forward(unit); };
  hooks.pre_backward = [this, &unit] { pre_backward(unit); };
  for (nn::Parameter* parameter : unit.flat().parameters()) {
    parameter->post_accumulate_grad = [this, &unit] { gradient_ready(unit); };
  }
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
  if (is_root(unit)) {
    order_.clear();
    context_.gather->wait(context_.compute->record());  // the optimizer has written the shards
  }
  order_.record(unit);
  unit.unshard(/*control=*/!training_);
  unit.wait_for_unshard();
}

void ShardedModel::post_forward(Unit& unit) {
  if (!is_root(unit)) context_.tracer.issue("F." + unit.name());
  // Backward starts with the root, so it stays; after an evaluation nothing would free it, and the
  // next forward would compute with stale weights.
  const bool stays = is_root(unit) && training_;
  stays ? context_.tracer.issue("r." + unit.name()) : unit.reshard();
}

void ShardedModel::pre_backward(Unit& unit) {
  unit.unshard();
  unit.wait_for_unshard();
  unit.prepare_gradients();
  progress(unit) = {.active = true, .missing = unit.flat().parameters().size()};
  if (options_.backward_prefetch == BackwardPrefetch::none) return;
  if (!options_.strategy.shard_parameters) return;
  if (Unit* next = order_.next_in_backward(unit)) next->unshard();
}

void ShardedModel::gradient_ready(Unit& unit) {
  if (--progress(unit).missing == 0) post_backward(unit);
}

void ShardedModel::post_backward(Unit& unit) {
  progress(unit).active = false;
  unit.reshard();
  unit.reduce_gradients(last_micro_step_);
}

void ShardedModel::end_of_backward() {
  // A unit with a parameter that this pass did not use: its gradient is zero here, but other ranks
  // may have used it. In a fixed order, so that all ranks call the same collectives.
  for (Unit& unit : units_) {
    if (progress(unit).active) post_backward(unit);
  }
  for (Unit& unit : units_) unit.wait_for_reduction();
}

void ShardedModel::zero_grad() {
  for (Unit& unit : units_) unit.zero_grad();
}

void ShardedModel::summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit) {
  context_.gather->wait(context_.compute->record());
  for (Unit& unit : units_) {
    unit.unshard(/*control=*/true);
    unit.wait_for_unshard();
    for (const nn::Parameter* parameter : unit.flat().parameters()) visit(*parameter);
    unit.reshard();
  }
}

}  // namespace nanofsdp::fsdp
