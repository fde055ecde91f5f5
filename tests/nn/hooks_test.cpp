#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "nn/linear.h"
#include "nn/module.h"
#include "nn/tape.h"
#include "support/errors.h"

// The promises of a module about its hooks, and about the order of its parameters.

namespace nanofsdp::nn {
namespace {

// The list beside a vector of handles. Each hook notes its call, and then adds and removes hooks at
// random, also itself.
TEST(Hooks, ThatAreAddedOrRemovedInACallCountFromTheNextOneOn) {
  Context context;
  Tape tape(context);
  std::mt19937 words(5);
  for (int run = 0; run < 20; ++run) {
    HookList list;
    std::vector<int> now, ever, called;
    std::function<void()> add = [&] {
      const auto own = std::make_shared<int>(0);
      *own = list.add([&, own](Tape&) {
        called.push_back(*own);
        if (words() % 3 == 0) add();
        if (words() % 3 > 0 || now.empty()) return;
        const std::size_t one = words() % now.size();
        list.remove(now[one]);
        now.erase(now.begin() + static_cast<std::ptrdiff_t>(one));
      });
      EXPECT_EQ(std::ranges::count(ever, *own), 0) << "the handle was another hook's";
      ever.push_back(*own);
      now.push_back(*own);
    };
    for (int i = 0; i < 4; ++i) add();
    for (int call = 0; call < 6; ++call) {
      const std::vector<int> before = now;
      called.clear();
      list(tape);
      EXPECT_EQ(called, before) << "call " << call;
      EXPECT_EQ(static_cast<bool>(list), !now.empty());
    }
  }
}

struct TwoTensors final : Module {
  Tensor forward(Tape& tape) {
    return hooked_forward(tape, [] { return Tensor(); });
  }
  Tensor do_forward(Tape&, Tensor x) override { return x; }
  Tensor do_backward(Tape&, Tensor dy) override { return dy; }
};

TEST(Hooks, OfAModuleOfSeveralTensorsLeaveNoRoomForRecompute) {
  Context context;
  Tape tape(context);
  TwoTensors module;
  module.forward(tape);
  module.recompute = true;
  testing::expect_error<Error>([&] { module.forward(tape); },
                               "recompute: expected a module of one tensor");
}

// A module with parameters of its own and children, to any depth.
struct Branch final : Module {
  Branch(std::mt19937& words, int depth) {
    for (std::size_t i = 0; i < words() % 3; ++i) {
      add("p" + std::to_string(i), std::make_shared<Parameter>(Shape{1}, Init::zeros()));
    }
    for (std::size_t i = 0; depth > 0 && i < words() % 4; ++i) {
      branches.push_back(std::make_unique<Branch>(words, depth - 1));
      add("b" + std::to_string(i), *branches.back());
    }
  }
  Tensor do_forward(Tape&, Tensor x) override { return x; }
  Tensor do_backward(Tape&, Tensor dy) override { return dy; }
  std::vector<std::unique_ptr<Branch>> branches;
};

// The paths in PyTorch's order.
void paths_of(const Module& module, const std::string& path, std::vector<std::string>& paths) {
  for (const auto& [name, parameter] : module.own_parameters()) paths.push_back(path + name);
  for (const auto& [name, child] : module.children()) paths_of(*child, path + name + ".", paths);
}

TEST(Parameters, OfAModuleComeBeforeThoseOfItsChildren) {
  std::mt19937 words(11);
  for (int run = 0; run < 30; ++run) {
    Branch tree(words, 3);
    std::vector<std::string> want, names;
    paths_of(tree, "", want);
    for (const Parameter* parameter : tree.named_parameters()) names.push_back(parameter->name);
    EXPECT_EQ(names, want);
  }
}

}  // namespace
}  // namespace nanofsdp::nn
