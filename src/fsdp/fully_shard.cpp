#include "fsdp/fully_shard.h"

#include <algorithm>
#include <exception>

#include "base/transfer.h"
#include "comm/agreement.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

// Returns the options as they apply to this mesh, or refuses them.
Options settled(Options options, comm::Mesh& mesh) {
  if (mesh.size() == 1) options.strategy = ShardingStrategy::no_shard;
  NANOFSDP_REFUSE_IF(options.forward_prefetch < 0, "forward_prefetch", "0 units or more",
                     std::to_string(options.forward_prefetch));
  NANOFSDP_CHECK(mesh.replicas() == 1 || options.sharding().replicates,
                 .what = "strategy " + name_of(options.strategy),
                 .expected = "one shard group of all ranks",
                 .got = std::to_string(mesh.replicas()) + " groups", .hint = "use hybrid_shard");
  NANOFSDP_CHECK(mesh.post_forward() == nullptr || options.sharding().reshards_after_forward,
                 .what = "strategy " + name_of(options.strategy),
                 .expected = "a mesh without post-forward groups", .got = "one that has them",
                 .hint = "use full_shard or hybrid_shard");
  NANOFSDP_REFUSE_IF(mesh.post_forward() != nullptr && mesh.post_forward()->size() == 1,
                     "reshard_after_forward", "more than 1 rank", "1", "that is shard_grad_op");
  return options;
}

// Gives all ranks the values of rank 0. Other ranks, and rank 0 too, may have shapes without
// values. If a collective fails, these parameters are as they were.
std::vector<Buffer> broadcast(Context& context, comm::Mesh& mesh,
                              std::span<nn::Parameter* const> parameters) {
  Stream& stream = *context.compute;
  std::vector<Buffer> received;
  std::vector<Tensor> values;
  for (const nn::Parameter* p : parameters) {
    const std::int64_t n = p->shape.numel();
    received.push_back(context.buffer(MemoryClass::unsharded_parameters, n + 1));
    // The last element says whether rank 0 has values for this parameter.
    const Tensor all = received.back().tensor({n + 1}), last = all.slice(n, 1);
    if (mesh.world().rank() == 0 && !p->data.empty()) {
      transfer(stream, p->data, all.slice(0, n));
      ops::fill(stream, {.x = last, .value = 1});
    }
    const comm::Call call{.unit = p->name, .control = true};
    stream.wait(mesh.world().broadcast(stream, all, 0, call));
    if (p->part.ranks == 1) stream.wait(mesh.tensor().broadcast(stream, all, 0, call));
    values.push_back(item<float>(stream, last) == 1 ? all.slice(0, n).view(p->shape) : Tensor());
  }
  for (std::size_t i = 0; i < values.size(); ++i) parameters[i]->data = values[i];
  return received;
}

}  // namespace

ShardedModel::ShardedModel(Context& context, nn::Module& model, comm::Mesh& mesh,
                           const Options& options)
    : context_(context), model_(model), mesh_(mesh), options_(settled(options, mesh)) {
  make_units();
  for (Unit& unit : units_)
    for (nn::Module* module : unit.modules()) attach(unit, *module);
  end_of_pass_ = std::make_shared<nn::Tape::EndOfPass>([this](bool done) { end_pass(done); });
}

void ShardedModel::make_units() {
  std::vector<WrappedModule> wrapped = wrap(model_, options_.wrap_policy);
  const std::size_t n = wrapped.size();
  const DType computed = compute_dtype(options_.precision, context_.device);
  units_.reserve(n);
  backward_order_.resize(n);
  for (const WrappedModule& module : wrapped) {  // before a unit takes values, or a rank sends some
    Options& own = unit_options_.emplace_back(options_);
    own.precision = module.options.precision.value_or(own.precision);
    NANOFSDP_CHECK(compute_dtype(own.precision, context_.device) == computed,
                   .what = "param_dtype of unit " + module.name, .expected = "the model's",
                   .got = "another", .hint = "a GPU computes all units in one dtype");
    const DType sent = own.precision.param_dtype, added = own.precision.reduce_dtype;
    const auto is_float = [](DType d) { return d == DType::float32 || d == DType::bfloat16; };
    NANOFSDP_REFUSE_IF(!is_float(added), "reduce_dtype", "float32 or bfloat16",
                       std::string(nanofsdp::name_of(added)));
    NANOFSDP_REFUSE_IF(!is_float(sent) && sent != DType::float8_e4m3, "param_dtype",
                       "float32, bfloat16 or float8_e4m3", std::string(nanofsdp::name_of(sent)));
    for (const nn::Parameter* p : module.parameters) {
      NANOFSDP_CHECK(!p->sharded, .what = p->name, .expected = "a parameter of no sharded model",
                     .got = "one that is sharded", .hint = "shard once, by one wrap_policy");
      NANOFSDP_CHECK_SHAPE(p->data.empty() || p->data.shape() == p->shape,
                           .what = "values of " + p->name, .expected = p->shape.str(),
                           .got = p->data.shape().str());
      NANOFSDP_CHECK(p->part.ranks == 1 || p->part.ranks == mesh_.tensor().size(), .what = p->name,
                     .expected = "parts for " + std::to_string(mesh_.tensor().size()) + " ranks",
                     .got = std::to_string(p->part.ranks), .hint = "as many as a tensor group has");
      NANOFSDP_CHECK(!p->requires_grad || p->dtype == DType::float32,
                     .what = p->name + ", which trains", .expected = "float32",
                     .got = std::string(nanofsdp::name_of(p->dtype)));
    }
  }
  for (WrappedModule& module : wrapped) {
    std::vector<Buffer> received;  // keeps the values until the unit has copied its part
    if (options_.sync_module_states) received = broadcast(context_, mesh_, module.parameters);
    Unit*& turn = backward_order_[n - 1 - static_cast<std::size_t>(module.forward_index)];
    turn = &units_.emplace_back(context_, mesh_, unit_options_[units_.size()], std::move(module),
                                whole_parameters_, whole_gradients_);
  }
  const auto [whole, grads] = slot_counts();
  whole_parameters_.allocate(context_, MemoryClass::unsharded_parameters, whole, computed);
  whole_gradients_.allocate(context_, MemoryClass::unsharded_gradients, grads, DType::float32);
}

// If ranks began with different seeds, or different values, they would train a mixture of models.
void ShardedModel::agree_on_values() {
  if (is_simulated(context_.device)) return;  // a simulated device has no values
  std::uint64_t replicated = 0, all = 8 * static_cast<std::uint64_t>(options_.strategy);
  all += static_cast<std::uint64_t>(options_.layout);
  for (const ShardedParameters* row : rows()) {
    for (std::size_t i = 0; i < row->parameters().size(); ++i) {
      std::uint64_t& sum = row->parameters()[i]->part.ranks > 1 ? all : replicated;
      sum = sum * 31 + row->fingerprint(i);
    }
  }
  all += 31 * replicated;
  if (agreed_ == all) return;
  const auto require = [this](comm::Communicator& ranks, std::uint64_t values) {
    comm::require_agreement(
        ranks, *context_.compute, "strategy, first values, names or layout of parameters", values,
        "give all ranks one model, and one seed or rank 0's values: sync_module_states");
  };
  require(mesh_.world(), all);
  if (mesh_.tensor().size() > 1) require(mesh_.tensor(), replicated);
  agreed_ = all;
}

ShardedModel::~ShardedModel() {
  // Collectives in flight read and write memory that this destructor frees.
  if (std::uncaught_exceptions() > 0) mesh_.abort("error of rank " + std::to_string(context_.rank));
  for (Stream* stream : {context_.gather.get(), context_.reduce.get()}) {
    try {
      stream->synchronize();
    } catch (...) {  // the caller that waited for the failed collective has reported it
    }
  }
  for (const Unit& unit : units_)
    for (nn::Module* module : unit.modules()) module->innermost = {};
}

//! [attach]
void ShardedModel::attach(Unit& unit, nn::Module& module) {
  nn::Module::Hooks& on = module.innermost;
  on.pre_forward = [this, &unit](nn::Tape& tape) {
    begin_pass(tape);
    const Purpose purpose = tape.training() ? Purpose::training : Purpose::evaluation;
    unit.unshard(purpose);
    const std::vector<Unit*> guessed = schedule_.begin_forward(unit, options_.forward_prefetch);
    for (Unit* next : unit.ahead_in_forward.value_or(guessed)) next->prefetch(purpose);
    unit.wait_until_unsharded();
    unit.span = context_.tracer.begin(tape.stream(), Lane::compute, "forward " + unit.name());
  };
  on.post_forward = [this, &unit, &module](nn::Tape& tape) {
    if (!unit.is_root()) context_.tracer.issue("F." + unit.name());
    if (unit.span != 0) context_.tracer.end(tape.stream(), unit.span);
    const bool backward_comes = tape.training() && !schedule_.in_backward();
    if (backward_comes) ++unit.pending_calls;
    if (&module != unit.modules().back()) return;  // the next module of the group needs the unit
    // The root's end is also that of a unit whose last module this pass leaves out.
    for (Unit& each : unit.is_root() ? units() : std::span(&unit, 1)) {
      if (each.state() != Unit::State::unsharded) continue;
      schedule_.end_forward(each);
      if (backward_comes && each.reshard_after_forward) each.keep_slice();
      // After an evaluation no unit stays.
      each.reshard(/*keep=*/tape.training() && !each.reshard_after_forward);
    }
  };
  on.pre_backward = [this, &unit](nn::Tape& tape) {
    begin_pass(tape);
    const bool goes_on = std::ranges::any_of(units_, &Unit::took_gradients);
    for (Unit& each : goes_on ? std::span<Unit>() : units()) each.begin_backward();
    schedule_.begin_backward(unit);
    const bool unshards = unit.unshards_in_backward();
    if (unshards) unit.unshard();
    prefetch_in_backward(unit, BackwardPrefetch::pre);
    if (unshards) unit.wait_until_unsharded();
    unit.take_gradients();
    unit.span = context_.tracer.begin(tape.stream(), Lane::compute, "backward " + unit.name());
  };
  on.post_backward = [this, &unit, &module](nn::Tape& tape) {
    if (unit.span != 0) context_.tracer.end(tape.stream(), unit.span);
    if (unit.trains()) unit.rows()[0].show_gradients({}, /*rests=*/true);
    const bool last = --unit.pending_calls == 0;
    const bool is_done = &module == unit.modules().front() || last;
    if (is_done && unit.state() == Unit::State::unsharded) unit.reshard(keeps_after_backward(unit));
    prefetch_in_backward(unit, BackwardPrefetch::post);
    if (last) reduce(unit);
  };
}

void ShardedModel::backward(nn::Tape& tape, Tensor dy, std::optional<bool> last_micro_step) {
  const LastMicroStep scope(*this, last_micro_step.value_or(last_micro_step_));
  model_.backward(tape, dy);
  tape.end_backward();
}

void ShardedModel::end_pass(bool backward) {
  for (Unit& unit : units_) --unit.passes;  // also if a collective fails below
  // The units in use belong to the pass that computed last, and perhaps that one goes on.
  if (!backward && last_ != nullptr && last_->knows(end_of_pass_)) return;
  last_ = nullptr;
  for (Unit* unit : backward_order_) {
    if (!backward) unit->wait_for_reduction();  // the pass is given up
    unit->end_of_use(/*keep=*/backward && keeps_after_backward(*unit) && unit->pending_calls == 0);
    if (unit->passes == 0) unit->pending_calls = 0;
    if (backward) unit->reduce_gradients(last_micro_step_);
    if (!backward && unit->took_gradients && !options_.accumulates()) unit->drop_gradients();
    unit->has_ended = unit->took_gradients = false;  // also for a pass around this one
  }
  for (Unit* unit : backward_order_) unit->wait_for_reduction();
  whole_parameters_.shrink();
  whole_gradients_.shrink();
}
//! [attach]

void ShardedModel::begin_pass(nn::Tape& tape) {
  tape.dtype = compute_dtype(options_.precision, context_.device);
  if (tape.knows(end_of_pass_)) return void(last_ = &tape);
  for (const Unit& unit : units_) {
    if (unit.passes > 0) unit.require_at_rest("a pass on another tape", /*or_under_way=*/true);
    for (const ShardedParameters& row : unit.rows()) row.require_unchanged();
  }
  agree_on_values();
  tape.at_end(end_of_pass_), last_ = &tape;
  schedule_.begin();
  if (whole_parameters_.units) whole_parameters_.units->plan(slot_counts().parameters);
  for (Unit& unit : units_) {
    unit.gathered_since_last_forward = unit.took_gradients = false;
    ++unit.passes;
  }
  context_.gather->wait(context_.compute->record());  // after the optimizer has written the shards
}

// Also true for FSDP's shard_grad_op under no_sync: then the next forward gathers nothing.
bool ShardedModel::keeps_after_backward(const Unit& unit) const {
  const bool goes_on = options_.no_sync && !last_micro_step_ && !unit.reshard_after_forward;
  return !unit.reshard_after_backward || (goes_on && !options_.sharding().reshards_after_forward);
}

SlotCounts ShardedModel::slot_counts() const {
  const std::span<const Unit> blocks = units().first(units_.size() - 1);
  const int depth = std::ranges::max_element(units_, {}, &Unit::depth)->depth();
  return pool_slots(options_, std::ssize(blocks), depth,
                    std::count_if(blocks.begin(), blocks.end(), std::mem_fn(&Unit::stays)));
}

void ShardedModel::prefetch_in_backward(const Unit& unit, BackwardPrefetch moment) {
  const auto& listed = unit.ahead_in_backward;
  const BackwardPrefetch chosen = listed ? BackwardPrefetch::pre : options_.backward_prefetch;
  if (moment != chosen || !options_.sharding().parameters) return;
  for (Unit* next : listed.value_or(schedule_.next_in_backward()))
    if (next->unshards_in_backward()) next->prefetch();
}

Unit& ShardedModel::unit_of(const nn::Module& module) {
  const auto found = std::ranges::find_if(
      units_, [&](Unit& unit) { return std::ranges::count(unit.modules(), &module) > 0; });
  NANOFSDP_CHECK(found != units_.end(), .what = "control of a unit",
                 .expected = "a module that is one", .got = "another: see the wrap policy");
  return *found;
}

std::vector<Unit*> ShardedModel::units_of(const Modules& modules) {
  std::vector<Unit*> units;
  for (const nn::Module* module : modules) units.push_back(&unit_of(*module));
  return units;
}

// If parameters are sharded, all ranks use the same units in the same order. If they are not, a
// rank may skip a unit that others use. So all ranks reduce in one fixed order, and a unit whose
// backward ends earlier waits for its turn.
void ShardedModel::reduce(Unit& unit) {
  if (options_.sharding().parameters) return unit.reduce_gradients(last_micro_step_);
  unit.has_ended = true;
  for (Unit* next : backward_order_) {
    if (next->trains() && !next->has_ended) return;
    next->reduce_gradients(last_micro_step_);
  }
}

Tensor ShardedModel::grad_norm() const {
  NANOFSDP_CHECK(norm_.has_value(), .what = "grad_norm()", .expected = "clip() before it",
                 .got = "none", .hint = "clip(0) clips nothing");
  return norm_->norm();
}

std::vector<ShardedParameters*> ShardedModel::rows() {
  std::vector<ShardedParameters*> all;
  for (Unit& unit : units_)
    for (ShardedParameters& row : unit.rows()) all.push_back(&row);
  return all;
}

}  // namespace nanofsdp::fsdp
