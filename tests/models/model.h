#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/wrap.h"
#include "models/leaves.h"
#include "models/program.h"
#include "ops/elementwise.h"

namespace models {

namespace fsdp = nanofsdp::fsdp;

/// @file
/// @brief The modules of a program, as a user would write them: with forward and backward, and
/// without any code for FSDP.

/// A module that owns other modules.
class Branch : public Counted {
 public:
  /// Takes ownership of the children of `node`.
  void own(std::vector<std::shared_ptr<nn::Module>> modules, const Node& node) {
    modules_ = std::move(modules);
    if (node.again && !modules_.empty()) modules_.push_back(modules_.front());
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      const std::size_t at = node.last_first ? modules_.size() - 1 - i : i;
      add(std::to_string(at), *modules_[at]);
    }
  }

 protected:
  Tensor forward_all(nn::Tape& tape, Tensor x) {
    for (const auto& module : modules_) x = module->forward(tape, x);
    return x;
  }
  Tensor backward_all(nn::Tape& tape, Tensor dy) {
    for (auto module = modules_.rbegin(); module != modules_.rend(); ++module) {
      dy = (*module)->backward(tape, dy);
    }
    return dy;
  }

  std::vector<std::shared_ptr<nn::Module>> modules_;
};

class Sequential final : public Branch {
  Tensor compute(nn::Tape& tape, Tensor x) override { return forward_all(tape, x); }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override { return backward_all(tape, dy); }
};

class Residual final : public Branch {
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    ops::add(tape.stream(), {.a = x, .b = forward_all(tape, x), .out = y});
    return y;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    const Tensor dx = tape.allocate(dy.shape());
    ops::add(tape.stream(), {.a = dy, .b = backward_all(tape, dy), .out = dx});
    return dx;
  }
};

class Parallel final : public Branch {
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    ops::fill(tape.stream(), {.x = y, .value = 0});
    for (const auto& module : modules_) {
      ops::accumulate(tape.stream(), {.in = module->forward(tape, x), .out = y});
    }
    return y;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    const Tensor dx = tape.allocate(dy.shape());
    ops::fill(tape.stream(), {.x = dx, .value = 0});
    for (auto module = modules_.rbegin(); module != modules_.rend(); ++module) {
      ops::accumulate(tape.stream(), {.in = (*module)->backward(tape, dy), .out = dx});
    }
    return dx;
  }
};

class Detached final : public Branch {
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor y = tape.allocate(x.shape());
    const nn::Tape::Scope pause(tape, /*frees=*/false, /*pauses=*/true);
    ops::add(tape.stream(), {.a = x, .b = forward_all(tape, x), .out = y});
    return y;
  }
  Tensor compute_back(nn::Tape&, Tensor dy) override { return dy; }
};

class Repeat final : public Branch {
 public:
  explicit Repeat(int times) : times_(times) {}

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override {
    for (int i = 0; i < times_; ++i) x = forward_all(tape, x);
    return x;
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    for (int i = 0; i < times_; ++i) dy = backward_all(tape, dy);
    return dy;
  }

  int times_;
};

class Choose final : public Branch {
 public:
  Choose(std::vector<int> picks, bool by_rank, const Pass& pass)
      : picks_(std::move(picks)), by_rank_(by_rank), pass_(pass) {}

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override {
    if (by_rank_ && pass_.together) return forward_all(tape, x);
    return picked() == nullptr ? x : picked()->forward(tape, x);
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    if (by_rank_ && pass_.together) return backward_all(tape, dy);
    return picked() == nullptr ? dy : picked()->backward(tape, dy);
  }
  nn::Module* picked() const {
    const int turn = pass_.number + (by_rank_ ? pass_.rank : 0);
    const int pick = picks_.empty() ? -1 : picks_[turn % static_cast<int>(picks_.size())];
    return pick < 0 || modules_.empty() ? nullptr : modules_[pick % modules_.size()].get();
  }

  std::vector<int> picks_;
  bool by_rank_;
  const Pass& pass_;
};

/// The sum of the two results of a module that reads x, and what the children make of it.
class Cross final : public Branch {
 public:
  explicit Cross(int width) : two(width) { add("two", two); }
  Two two;

 private:
  Tensor compute(nn::Tape& tape, Tensor x) override {
    const Tensor memory = forward_all(tape, x);
    const auto [y, z] = two.forward(tape, x, memory);
    return sum(tape, y, z);
  }
  Tensor compute_back(nn::Tape& tape, Tensor dy) override {
    const auto [dx, dmemory] = two.backward(tape, dy, dy);
    return sum(tape, dx, backward_all(tape, dmemory));
  }
  static Tensor sum(nn::Tape& tape, Tensor a, Tensor b) {
    const Tensor y = tape.allocate(a.shape());
    ops::add(tape.stream(), {.a = a, .b = b, .out = y});
    return y;
  }
};

/// The model of a program.
class Model {
 public:
  /// @param recompute if false, the flags of the nodes do not count
  explicit Model(const Program& program, bool recompute = true)
      : width_(program.width), recompute_(recompute) {
    Ties ties;
    root_ = make(program.model, ties, Above{});
    for (const Made& made : made_) {
      if (made.node.hooks_before) hook_in(*made.module, hook_of(made, /*is_second=*/false), pass);
    }
  }

  /// Adds the user's hooks that come after the model is sharded.
  void hook_in_again() {
    for (const Made& made : made_) {
      const bool is_second = made.node.hooks_before;
      if (made.node.hooks_after) hook_in(*made.module, hook_of(made, is_second), pass);
    }
  }

  nn::Module& root() { return *root_; }
  /// The policy.
  fsdp::UnitOptions unit_options(const nn::Module& module) const {
    const auto made = std::ranges::find(made_, &module, &Made::module);
    fsdp::UnitOptions unit = made != made_.end() && made->node.unit;
    if (!unit.is_unit) return unit;
    const int group = made->node.group;
    const auto first = std::ranges::find_if(
        made_, [group](const Made& m) { return m.node.unit && m.node.group == group; });
    const Node& node = group > 0 ? first->node : made->node;
    if (node.reshards > 0) unit.reshard_after_forward = node.reshards == 1;
    if (node.dtypes > 0) unit.precision = precision_of(node.dtypes);
    if (group > 0) unit.group = "group " + std::to_string(group);
    return unit;
  }
  /// Module `i` of the tree. If there are fewer, the count begins again at the first.
  nn::Module& module(int i) { return *made_[static_cast<std::size_t>(i) % made_.size()].module; }
  Pass pass;

 private:
  // Ranks may use different modules only if all ranks have used all of these modules before, in the
  // first pass of the step. So a choice by rank must be among modules that are the same in all
  // passes. Below a choice by pass there is none by rank, and below a choice by rank the first pick
  // stays.
  struct Above {
    bool choice_by_pass = false;
    bool choice_by_rank = false;
    std::set<int> groups{0};  // the groups of the units around it
  };

  static fsdp::MixedPrecision precision_of(int dtypes) {
    using nanofsdp::DType;
    const auto half = [&](int bit) {
      return ((dtypes - 1) & bit) != 0 ? DType::bfloat16 : DType::float32;
    };
    if (dtypes > 4) return {DType::float8_e4m3, dtypes > 5 ? DType::bfloat16 : DType::float32};
    return {.param_dtype = half(1), .reduce_dtype = half(2)};
  }

  struct Made {
    nn::Module* module = nullptr;
    Node node{};  // the node without its children
  };
  UserHook hook_of(const Made& made, bool is_second) const {
    const auto number = static_cast<int>(&made - made_.data());
    return {.number = number,
            .is_second = is_second,
            .is_first_of_two = !is_second && made.node.hooks_before && made.node.hooks_after,
            .is_of_unit = made.node.unit || number == 0};  // the root is a unit
  }

  std::unique_ptr<Counted> make(const Node& node, Ties& outer, Above above) {
    const std::size_t number = made_.size();
    made_.push_back({nullptr, node});
    Node& kept = made_.back().node;
    kept.children.clear();
    // The root lies around all, and a unit in a unit of its group is a unit by itself.
    const bool alone = number == 0 || !node.unit || !above.groups.insert(node.group).second;
    if (alone) kept.group = 0;
    Ties own;
    Ties& ties = !node.unit ? outer : alone ? own : group_ties_[node.group];
    std::unique_ptr<Branch> branch = make_branch(node, above);
    if (node.kind == Kind::choose) {
      const bool by_rank = node.by_rank && !above.choice_by_pass;
      (by_rank ? above.choice_by_rank : above.choice_by_pass) = true;
    }
    if (branch) {
      std::vector<std::shared_ptr<nn::Module>> children;
      for (const Node& child : node.children) children.push_back(make(child, ties, above));
      branch->own(std::move(children), node);
    }
    if (auto* cross = dynamic_cast<Cross*>(branch.get())) {
      cross->two.pass = &pass;
      made_.push_back({&cross->two, {.unit = node.inner_unit}});
    }
    std::unique_ptr<Counted> module = std::move(branch);
    if (!module) module = make_leaf(node, width_, ties, /*by_hand=*/!recompute_);
    module->recompute = node.recompute && recompute_;
    module->pass = &pass;
    made_[number].module = module.get();
    return module;
  }

  std::unique_ptr<Branch> make_branch(const Node& node, const Above& above) {
    switch (node.kind) {
      case Kind::sequential:
        return std::make_unique<Sequential>();
      case Kind::residual:
        return std::make_unique<Residual>();
      case Kind::parallel:
        return std::make_unique<Parallel>();
      case Kind::detached:
        return std::make_unique<Detached>();
      case Kind::repeat:
        return std::make_unique<Repeat>(node.times);
      case Kind::cross:
        return std::make_unique<Cross>(width_);
      case Kind::choose: {
        std::vector<int> picks = node.picks;
        const bool by_rank = node.by_rank && !above.choice_by_pass;
        if (!by_rank && above.choice_by_rank && !picks.empty()) picks.resize(1);
        return std::make_unique<Choose>(std::move(picks), by_rank, pass);
      }
      default:
        return nullptr;
    }
  }

  int width_;
  bool recompute_;
  std::vector<Made> made_;
  std::map<int, Ties> group_ties_;  // weights that the modules of a group share
  std::unique_ptr<nn::Module> root_;
};

}  // namespace models
