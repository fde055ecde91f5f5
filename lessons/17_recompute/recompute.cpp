#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "frame/lesson.h"
#include "ops/elementwise.h"
#include "seen.h"
#include "stack.h"

// Lesson 17: keep only the input of a block, run its forward again inside its backward, and do not
// run the forward hooks there.

namespace {

using namespace nanofsdp;

//! [again]
class Again final : public nn::Module {
 public:
  explicit Again(nn::Module& block, bool calls_hooks = false)
      : block_(block), calls_hooks_(calls_hooks) {}

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    if (again_) return block_.forward(tape, x);
    const Tensor y = tape.allocate(x.shape());
    tape.save({x});  // restore() takes dropout back to here: both forwards have equal masks
    {
      // At its end, what is allocated from here on is freed. Until then, nothing is saved.
      const nn::Tape::Scope scope(tape, /*frees=*/true, /*pauses=*/true);
      ops::copy(tape.stream(), {.in = block_.forward(tape, x), .out = y});
    }
    return y;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const nn::Tape::Scope scope(tape);
    const auto [x] = tape.restore<1>();
    again_ = true;  // this time the block saves its activations
    calls_hooks_ ? forward(tape, x) : do_forward(tape, x);
    again_ = false;
    return block_.backward(tape, dy);  // in dy's memory, which the scope does not free
  }
  nn::Module& block_;
  bool calls_hooks_, again_ = false;
};
//! [again]

//! [hooks]
void attach(nn::Module& module, lesson::Weights& weights) {
  const auto gather = [&weights](nn::Tape&) { weights.gather(); };
  const auto discard = [&weights](nn::Tape&) { weights.discard(); };
  module.hooks = {gather, discard, gather,
                  discard};  // before and after forward, before and after backward
}
//! [hooks]

struct Hooked {
  lesson::Order order{};
  std::vector<float> gradients{};
};

Hooked with_hooks(const lesson::Stack::Wrap& wrap, bool library = false) {
  Hooked run;
  lesson::Stack stack(4, wrap);
  std::deque<lesson::Weights> weights;
  for (std::size_t i = 0; i < 4; ++i) {
    weights.emplace_back(fmt::format("h.{}", i), stack.blocks[i], run.order);
    attach(stack.layer(i), weights[i]);
    stack.blocks[i].recompute = library;
  }
  stack.forward_backward();
  run.gradients = stack.gradients();
  return run;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const auto again = [](gpt::Block& block) { return std::make_unique<Again>(block); };
  const auto naively = [](gpt::Block& block) { return std::make_unique<Again>(block, true); };
  lesson.print("activations, bytes   everything kept   inputs only");
  std::vector<lesson::Bytes> bytes;
  for (const int n : {1, 2, 4, 8}) {
    lesson::Stack whole(n), library(n);
    lesson::Stack by_hand(n, again);
    for (gpt::Block& block : library.blocks) block.recompute = true;
    bytes.push_back({whole.forward_backward(), by_hand.forward_backward()});
    lesson.print(fmt::format("{} block{:<13}{:>16}{:>14}", n, n == 1 ? "" : "s", bytes.back()[0],
                             bytes.back()[1]));
    lesson.claim(library.forward_backward() == bytes.back()[1], "as many bytes as the library");
    lesson.claim(whole.gradients() == by_hand.gradients(), "gradients of everything kept");
    lesson.claim(library.gradients() == by_hand.gradients(), "the library's gradients");
  }
  lesson.answer(bytes[3][1]);
  const std::int64_t input = 6 * 64 * 128 * sizeof(float);
  lesson.claim(bytes[3][1] - bytes[0][1] == 7 * input, "a block more is an input more");

  const Hooked kept = with_hooks(nullptr), naive = with_hooks(naively);
  const Hooked inside = with_hooks(again), library = with_hooks(nullptr, true);
  lesson.print("hooks of 4 blocks    gathers   gradients that are NaN");
  const auto print = [&](std::string_view name, const Hooked& run) {
    const auto gathers = std::ranges::count(run.order, 'U', [](auto& event) { return event[0]; });
    const auto nans = std::ranges::count_if(run.gradients, [](float g) { return std::isnan(g); });
    lesson.print(
        fmt::format("{:<21}{:>7}{:>12} of {}", name, gathers, nans, kept.gradients.size()));
    return gathers;
  };
  print("kept", kept);
  lesson.answer(print("again, with hooks", naive) / 4);
  print("again, without", inside);
  for (const Hooked* run : {&inside, &library}) {
    lesson.claim(run->order == kept.order, "hooks: the order without recompute");
    lesson.claim(run->gradients == kept.gradients, "hooks: the gradients without recompute");
  }

  using fsdp::BackwardPrefetch;
  const lesson::Seen plain = lesson::train(true, BackwardPrefetch::none);
  lesson.claim(lesson::of_blocks(plain.order) == inside.order, "the library's order");
  const lesson::Seen without = lesson::train(false, BackwardPrefetch::pre);
  const lesson::Seen with = lesson::train(true, BackwardPrefetch::pre);
  lesson.print("full_shard, 2 ranks     activations   all-gathers");
  lesson.print(fmt::format("kept{:>31}{:>14}", without.activations, without.all_gathers));
  lesson.print(fmt::format("recomputed{:>25}{:>14}", with.activations, with.all_gathers));
  lesson.print("order of backward with recompute, as it is without:");
  lesson.print("  " + lesson::backward_of(with.order));
  lesson.answer(with.all_gathers);
  lesson.claim(without.order == with.order, "the same events in the same order");
  lesson.claim(without.all_gathers == with.all_gathers, "as many all-gathers");
  lesson.claim(without.weights == with.weights, "the same weights");
  lesson.picture(lesson::drawing(bytes));
  return lesson.end("the same bits and the same events; by hand is the library's");
}
