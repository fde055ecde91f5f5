#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/transfer.h"
#include "comm/mesh.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "models/asides.h"
#include "models/first_values.h"
#include "models/record.h"
#include "models/rest.h"
#include "models/traffic.h"
#include "models/training.h"
#include "store/checkpoint.h"
#include "store/slices.h"

namespace models {

namespace comm = nanofsdp::comm;
namespace store = nanofsdp::store;

/// @file
/// @brief Runs a part of a program under FSDP, on one rank.
class Rank {
 public:
  /// @param directory of checkpoints, which all ranks and parts share
  Rank(Context& context, std::unique_ptr<comm::Communicator> all, const Program& program,
       std::size_t part, std::string directory)
      : program_(program),
        is_plain_(plain(program) == program),
        world_(program.parts[part].world),
        directory_(std::move(directory)),
        context_(context),
        mesh_(std::move(all), groups_of(world_), world_.post_forward_size,
              program.parts[part].world.tensor),
        model_(program),
        memory_(give_values(part)),
        sharded_(context, model_.root(), mesh_, options()),
        optimizer_(context, sharded_.units(), {.weight_decay = kWeightDecay}),
        rest_(context, sharded_, world_, micro_steps_of(program.parts[part])),
        course_(world_, part) {
    memory_.clear();  // the values have been copied
    if (world_.traced) context.tracer.start();
    rest_.require_memory();
    model_.hook_in_again();
    if (part == 0 && program.first == First::drawn) draw();
    if (part > 0) store::load_checkpoint(directory_, sharded_, optimizer_);
  }

  Record run() {
    play(program_.parts[course_.part()].actions, "", 0);
    record_parameters("at the end: ");
    record_slices();
    if (course_.part() + 1 < program_.parts.size()) save();
    return std::move(record_);
  }

 private:
  static int groups_of(const World& world) {
    return fsdp::sharding_of(world.strategy).replicates ? world.shard_size : 0;
  }
  fsdp::Options options() const {
    fsdp::Options options = options_of(world_);
    options.strategy = world_.strategy;
    options.sync_module_states =
        program_.first == First::broadcast || program_.first == First::shapes;
    options.wrap_policy = [this](const nn::Module& module) { return model_.unit_options(module); };
    return options;
  }

  void draw() {
    nanofsdp::Generator generator(program_.seed);
    fsdp::deferred_init(context_, sharded_.units(), generator);
  }

  // Later parts take their values from a checkpoint.
  std::deque<Owned<float>> give_values(std::size_t part) {
    std::deque<Owned<float>> memory;
    const std::vector<nn::Parameter*> all = model_.root().named_parameters();
    for (nn::Parameter* parameter : all) {
      parameters_.emplace_back(parameter, parameter->name);
      parameter->part = part_of(*parameter, mesh_.tensor().rank(), mesh_.tensor().size());
      std::vector<float> values =
          first_values(program_, mesh_.rank(), parameters_.size() - 1, all.size(), *parameter);
      if (part > 0 || values.empty()) continue;
      parameter->data = memory.emplace_back(parameter->shape).view();
      std::ranges::copy(values, memory.back().values.begin());
    }
    return memory;
  }

  void play(const std::vector<Action>& actions, const std::string& outer, std::size_t depth) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::string place = place_of(outer, i, actions[i]);
      play(actions[i], place, depth);
      if (depth == 0) rest_.require(place);
    }
  }

  void play(const Action& action, const std::string& place, std::size_t depth) {
    switch (action.what) {
      case Do::pass:
      case Do::evaluate:
      case Do::give_up:
        return pass(action, place, depth);
      case Do::fail:
        return fail(action, depth);
      case Do::zero_grad:
        if (depth == 0) before_ = mesh_.traffic();
        rest_.forgotten();
        return sharded_.zero_grad(action.on);
      case Do::clip:
      case Do::step:
        return step(action, place);
      case Do::sync:
        rest_.sync(action.which, action.on);
        return sharded_.set_requires_gradient_sync(
            action.on, action.which < 0 ? nullptr : &unit_of(sharded_, action.which).module());
      case Do::across:
      case Do::after_forward:
      case Do::after_backward:
      case Do::in_backward:
        return control(action);
      case Do::train:
        if (parameters_.empty()) return;
        parameters_[static_cast<std::size_t>(action.which) % parameters_.size()]
            .first->requires_grad = action.on;
        return;
      case Do::look:
        return look(sharded_, model_.module(action.which), /*clipped=*/steps_ > 0);
      case Do::summon:
        return action.on ? record_parameters(place) : fail_to_summon(sharded_, action.which);
      case Do::ahead:
        return order(sharded_, action);
      case Do::save:
        return save();
      case Do::load:
        course_.updated();
        if (!std::filesystem::exists(store::checkpoint_path(directory_))) return;
        store::load_checkpoint(directory_, sharded_, optimizer_);
        return;
    }
  }

  void control(const Action& action) {
    for (const fsdp::Unit& unit : sharded_.units()) {
      const nn::Module& module = unit.module();
      const bool on = action.on;
      if (action.which >= 0 && &unit_of(sharded_, action.which).module() != &module) continue;
      if (action.what == Do::across) sharded_.set_requires_all_reduce(on, &module);
      if (action.what == Do::after_forward) sharded_.set_reshard_after_forward(on, &module);
      if (action.what == Do::after_backward) sharded_.set_reshard_after_backward(on, &module);
      // If its forward is run again in backward, that reads the parameter.
      const bool reads = std::ranges::any_of(unit.modules(), [](const nn::Module* each) {
        return dynamic_cast<const Shift*>(each) == nullptr || each->recompute;
      });
      if (action.what == Do::in_backward && !reads) sharded_.set_unshard_in_backward(on, &module);
    }
    rest_.controlled();
  }

  void pass(const Action& action, const std::string& place, std::size_t depth) {
    const Turn turn = course_.turn(action);
    const bool backward = action.what == Do::pass;
    nn::Tape& tape = tape_of(depth);
    Owned<float> rows = input_of(program_, mesh_.rank(), turn, Input::rows);
    Pass outer = std::exchange(model_.pass, begin(action, turn));
    record_.add(place + "output", forward(tape, action, turn, rows).span<float>());
    Pass mine = std::exchange(model_.pass, Pass());
    if (backward) play(action.inside, place, depth + 1);
    model_.pass = std::move(mine);
    backward ? this->backward(tape, action, turn, place) : tape.end();
    record_.add(place + "hooks", model_.pass.seen);
    model_.pass = std::move(outer);
    backward ? rest_.reduced(action.on) : rest_.ended();
    if (depth == 0) rest_.require_pools(place);
  }

  Pass begin(const Action& action, const Turn& turn) {
    Pass pass = pass_of(action, turn, mesh_.rank());
    rest_.begun();
    pass.at_unit = [this](const nn::Module& module) { rest_.require_piece(module); };
    return pass;
  }

  Tensor forward(nn::Tape& tape, const Action& action, const Turn& turn, Tensor rows) {
    const bool training = action.what != Do::evaluate;
    tape.begin(training, key_of(program_, turn, mesh_.rank()));
    return sharded_.forward(tape, rows);
  }

  // Backward is one call, or two: the end of the pass frees the gradient of the input.
  void backward(nn::Tape& tape, const Action& action, const Turn& turn, const std::string& place) {
    model_.pass.in_backward = true;
    Owned<float> dy = input_of(program_, mesh_.rank(), turn, Input::gradient);
    if (!turn.is_by_hand()) return sharded_.backward(tape, dy, action.on);
    const fsdp::LastMicroStep scope(sharded_, action.on);
    const Tensor dx = model_.root().backward(tape, dy);
    record_.add(place + "gradient of the input", dx.span<float>());
    tape.end_backward();
  }

  void fail(const Action& action, std::size_t depth) {
    const Turn turn = course_.turn(action);
    nn::Tape& tape = tape_of(depth);
    Owned<float> rows = input_of(program_, mesh_.rank(), turn, Input::rows);
    Pass outer = std::exchange(model_.pass, begin(action, turn));
    rest_.ended();
    try {
      forward(tape, action, turn, rows);
      Owned<float> dy = input_of(program_, mesh_.rank(), turn, Input::gradient);
      model_.pass.in_backward = true;
      sharded_.backward(tape, dy, action.on);
      rest_.reduced(action.on);  // there are fewer calls than that number
    } catch (const Fault&) {
    } catch (const nanofsdp::Error& error) {  // the test cannot know which rank is first
      const std::string words = error.what();
      const bool stated = words.find("zero_grad after the last") != words.npos ||
                          words.find("frozen, as it was when") != words.npos;
      if (!stated) throw;
    }
    tape.end();
    sharded_.zero_grad();
    rest_.forgotten();
    model_.pass = std::move(outer);
  }

  void step(const Action& action, const std::string& place) {
    const Tensor coefficient = sharded_.clip(action.on ? kClip : 0);
    record_.add(place + "norm", sharded_.grad_norm().span<float>());
    ++steps_;
    if (action.what != Do::step) return;
    optimizer_.step(kLearningRate, action.on ? coefficient : Tensor());
    course_.updated();
    if (steps_ > 1 && is_plain_) rest_.require_traffic(mesh_.traffic() - before_);
  }

  void save() {
    const bool saved = store::save_checkpoint(directory_, sharded_, optimizer_).has_value();
    if (!saved) throw std::runtime_error("no checkpoint was saved");
  }

  nn::Tape& tape_of(std::size_t depth) {
    while (tapes_.size() <= depth) tapes_.emplace_back(context_);
    return tapes_[depth];
  }

  void record_parameters(const std::string& place) {
    std::map<std::string, std::vector<float>> whole;
    sharded_.summon_full_parameters([&](const nn::Parameter& parameter) {
      const std::span<const float> values = parameter.data.span<float>();
      whole[parameter.name].assign(values.begin(), values.end());
    });
    for (const auto& [parameter, name] : parameters_) record_.add(place + name, whole[name]);
  }

  void record_slices() {
    const auto copy = [this](const Tensor& x) {
      std::vector<float> room;
      const std::span<const float> values = nanofsdp::on_host(*context_.compute, x, room);
      return std::vector<float>(values.begin(), values.end());
    };
    for (const store::StateSlice& slice :
         store::slices_of(sharded_.units(), optimizer_, store::Slices::to_load)) {
      Slice& mine = record_.slices.emplace_back();
      mine = {slice.parameter.name, slice.range.begin, copy(slice.tensors[0].second), {}, {}, 0};
      if (slice.steps == nullptr) continue;
      mine.m = copy(slice.tensors[1].second);
      mine.v = copy(slice.tensors[2].second);
      mine.steps = *slice.steps;
    }
  }

  Program program_;
  bool is_plain_;
  World world_;
  std::string directory_;
  Context& context_;
  comm::Mesh mesh_;
  Model model_;
  std::vector<std::pair<nn::Parameter*, std::string>> parameters_;  // parameters and their names
  std::deque<Owned<float>> memory_;
  fsdp::ShardedModel sharded_;
  std::deque<nn::Tape> tapes_;  // one for each depth of passes inside passes
  fsdp::AdamW optimizer_;
  Rest rest_;
  Course course_;
  comm::Traffic before_;  // traffic before this step
  int steps_ = 0;         // number of steps and norms
  Record record_;
};

}  // namespace models
