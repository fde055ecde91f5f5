#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/transfer.h"
#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "models/record.h"
#include "models/reference.h"
#include "models/traffic.h"
#include "models/training.h"
#include "store/slices.h"
#include "support/closed_formula.h"
#include "support/late_wire.h"
#include "support/ranks.h"

namespace models {

namespace comm = nanofsdp::comm;
namespace fsdp = nanofsdp::fsdp;
using nanofsdp::Context;
using nanofsdp::MemoryClass;

/// @file
/// @brief A program under FSDP, with ranks that are threads, compared with its reference.

/// One rank.
class ShardedRun {
 public:
  ShardedRun(Context& context, std::unique_ptr<comm::Communicator> world, const Program& program)
      : program_(program),
        context_(context),
        mesh_(std::move(world), hybrid() ? program.shard_size : 0, program.post_forward_size),
        model_(program),
        memory_(give_values()),
        sharded_(context, model_.root(), mesh_, options()),
        norm_(context, mesh_),
        optimizer_(context, sharded_.units(), {.weight_decay = kWeightDecay}) {
    memory_.clear();  // it has been copied
    require_memory();
    planned_ = whole_bytes();
    slices_ = context_.ledger.count(MemoryClass::unsharded_parameters).in_use;
  }

  Record run() {
    for (int step = 0; step < program_.steps; ++step) {
      const comm::Traffic before = mesh_.traffic();
      sharded_.zero_grad(program_.set_to_none);
      if (program_.false_start) {
        passes(step, -1);
        sharded_.zero_grad(program_.set_to_none);
      }
      for (int m = 0; m < program_.micro_steps; ++m) passes(step, m);
      norm_.compute(sharded_.units(), kClip);
      record_.add(fmt::format("step {}: norm", step), norm_.norm().span<float>());
      optimizer_.step(kLearningRate, norm_.coefficient());
      if (step == 0 || plain(program_) != program_) continue;
      require_traffic(mesh_.traffic() - before, plan_.step);
    }
    record_parameters("at the end: ");
    for (const nanofsdp::store::StateSlice& slice :
         nanofsdp::store::slices_to_load(sharded_.units(), optimizer_)) {
      const auto copy = [this](const Tensor& x) {
        std::vector<float> room;
        const std::span<const float> values = nanofsdp::on_host(*context_.compute, x, room);
        return std::vector<float>(values.begin(), values.end());
      };
      record_.slices.push_back(
          {slice.parameter.name, slice.range.begin, copy(slice.values), {}, {}, 0});
      if (slice.steps == nullptr) continue;
      record_.slices.back().m = copy(slice.state[0]);
      record_.slices.back().v = copy(slice.state[1]);
      record_.slices.back().steps = *slice.steps;
    }
    return std::move(record_);
  }

 private:
  // What is reserved is what was to be expected, whatever is nested, frozen or shared.
  void require_memory() const {
    for (const MemoryClass c :
         {MemoryClass::parameter_shards, MemoryClass::gradient_shards, MemoryClass::optimizer,
          MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients}) {
      const std::int64_t bytes = context_.ledger.count(c).reserved;
      if (bytes == plan_.of(c)) continue;
      throw std::runtime_error(
          fmt::format("{}: planned {} bytes, got {}", nanofsdp::name_of(c), plan_.of(c), bytes));
    }
  }

  bool hybrid() const { return fsdp::sharding_of(program_.strategy).replicates; }

  fsdp::Options options() const {
    return {.strategy = program_.strategy,
            .layout = program_.layout,
            .precision = {program_.param_dtype, program_.reduce_dtype},
            .forward_prefetch = program_.forward_prefetch,
            .backward_prefetch = program_.backward_prefetch,
            .no_sync = program_.no_sync,
            .reduction = program_.average ? comm::ReduceOp::average : comm::ReduceOp::sum,
            .alignment = program_.alignment,
            .poison = program_.poison,
            .pool = program_.pool,
            .wrap_policy = [this](const nn::Module& module) { return model_.is_unit(module); }};
  }

  std::vector<Owned<float>> give_values() {
    std::vector<Owned<float>> memory;
    for (nn::Parameter* parameter : model_.root().named_parameters()) {
      memory.push_back(first_values(program_, *parameter, memory.size()));
      parameter->data = memory.back().view();
    }
    return memory;
  }

  void passes(int step, int micro_step) {
    const std::string place = place_of(step, micro_step);
    rows_.clear();
    if (program_.between == Between::summon) {
      record_parameters(place);
    } else if (program_.between != Between::nothing) {
      pass_without_backward(tape_, step, micro_step, place + "before");
      require_rest(place + "before", /*last=*/false);
    }
    const Turn turn{step, micro_step};
    record_.add(place + "output", forward(tape_, turn).span<float>());
    if (program_.meanwhile) {
      const Pass under_way = model_.pass;
      pass_without_backward(other_tape_, step, micro_step, place + "meanwhile");
      model_.pass = under_way;
    }
    const bool last = micro_step + 1 == program_.micro_steps;
    Owned<float> dy = input_of(program_, context_.rank, turn, Input::gradient);
    backward(dy, place, last);
    require_rest(place + "backward", last);
  }

  // In two calls: the end of the pass frees the gradient of the input.
  void backward(Tensor dy, const std::string& place, bool last) {
    sharded_.set_last_micro_step(last);
    const Tensor dx = model_.root().backward(tape_, dy);
    record_.add(place + "gradient of the input", dx.span<float>());
    tape_.end_backward();
  }

  void pass_without_backward(nn::Tape& tape, int step, int micro_step, const std::string& place) {
    const Tensor y = forward(tape, {step, micro_step, /*between=*/true});
    record_.add(place, y.span<float>());
    tape.end();
  }

  Tensor forward(nn::Tape& tape, const Turn& turn) {
    model_.pass = pass_of(program_, context_.rank, turn);
    tape.begin(!turn.between || (&tape == &tape_ && program_.between == Between::given_up));
    rows_.push_back(input_of(program_, context_.rank, turn, Input::rows));
    return sharded_.forward(tape, rows_.back());
  }

  // After a pass nobody holds anything but what the strategy keeps, or no_sync does until the last
  // micro-step; and the pools are as planned.
  void require_rest(const std::string& place, bool last) {
    if (whole_bytes() != planned_) {
      throw std::runtime_error(fmt::format("after {}: expected pools of {} bytes, got {}", place,
                                           planned_, whole_bytes()));
    }
    for (const fsdp::Unit& unit : sharded_.units()) unit.require_at_rest(place.c_str());
    const bool waits = program_.no_sync && !last;
    const bool adds_up = options().accumulates() && !last;
    const bool kept = !fsdp::sharding_of(sharded_.strategy()).parameters ||
                      (waits && program_.strategy == ShardingStrategy::shard_grad_op);
    if (!kept) require_unused(MemoryClass::unsharded_parameters, place, slices_);
    if (!adds_up) require_unused(MemoryClass::unsharded_gradients, place);
  }

  // Reserved for whole parameters and gradients.
  std::int64_t whole_bytes() const {
    return context_.ledger.count(MemoryClass::unsharded_parameters).reserved +
           context_.ledger.count(MemoryClass::unsharded_gradients).reserved;
  }

  void require_unused(MemoryClass memory_class, const std::string& place, std::int64_t always = 0) {
    const std::int64_t bytes = context_.ledger.count(memory_class).in_use - always;
    if (bytes == 0) return;
    throw std::runtime_error(fmt::format("after {}: {} bytes of {} in use", place, bytes,
                                         nanofsdp::name_of(memory_class)));
  }

  void record_parameters(const std::string& place) {
    std::map<std::string, std::vector<float>> whole;
    sharded_.summon_full_parameters([&](const nn::Parameter& parameter) {
      const std::span<const float> values = parameter.data.span<float>();
      whole[parameter.name].assign(values.begin(), values.end());
    });
    for (const nn::Parameter* parameter : model_.root().named_parameters()) {
      record_.add(place + parameter->name, whole[parameter->name]);
    }
  }

  Program program_;
  Context& context_;
  comm::Mesh mesh_;
  Model model_;
  std::vector<Owned<float>> memory_;
  fsdp::ShardedModel sharded_;
  nn::Tape tape_{context_}, other_tape_{context_};
  fsdp::GradNorm norm_;
  fsdp::AdamW optimizer_;
  nanofsdp::formula::Plan plan_ =
      nanofsdp::formula::plan(nanofsdp::formula::layouts_of(sharded_.units()), options(),
                              {.shard_size = mesh_.shard_size(),
                               .replicas = mesh_.replicas(),
                               .post_forward_size = program_.post_forward_size,
                               .micro_steps = program_.micro_steps});
  std::deque<Owned<float>> rows_;  // of the passes under way
  Record record_;
  std::int64_t planned_ = 0;
  std::int64_t slices_ = 0;  // of post-forward groups, which are always in use
};

/// How long a rank waits for another.
using Patience = std::chrono::milliseconds;

using nanofsdp::testing::Backend;

/// Gives `keep` the record of every rank, in that rank.
/// @throws RankError also where a rank waits in vain
inline void run_sharded(const Program& program, Patience patience, Backend backend,
                        const std::function<void(std::size_t rank, Record)>& keep) {
  const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    using nanofsdp::testing::LateWire;
    const std::chrono::microseconds delay(300 * (1 + context.rank));
    if (program.late) world = std::make_unique<LateWire>(std::move(world), delay);
    const auto rank = static_cast<std::size_t>(context.rank);
    keep(rank, ShardedRun(context, std::move(world), program).run());
  };
  nanofsdp::testing::run_ranks(backend, program.ranks, body, {.timeout = patience});
}

/// What FSDP makes of the program that its reference does not, in words. Empty: nothing. Ranks that
/// are processes compare by themselves; that they own all together is not compared.
inline std::string run(const Program& program, Patience patience = std::chrono::seconds(5),
                       Backend backend = Backend::local) {
  try {
    const Records expected = Reference(program).run();
    Records records(static_cast<std::size_t>(program.ranks));
    run_sharded(program, patience, backend, [&](std::size_t rank, Record record) {
      if (backend == Backend::local) return void(records[rank] = std::move(record));
      std::string words = difference(expected[rank], record);
      if (words.empty()) words = difference_of_slices(expected[rank], record);
      if (!words.empty()) throw std::runtime_error(words);
    });
    return backend == Backend::local ? difference(expected, records) : "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace models
