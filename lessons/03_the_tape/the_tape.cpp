#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "frame/lesson.h"
#include "gpt/gpt.h"
#include "ops/embedding.h"
#include "ops/matmul.h"

// Lesson 03: a tape by hand under a model of two operators; the library's under the same, and under
// a GPT.

namespace {

using namespace nanofsdp;

// Tensors that live as long as the lesson: zeros, or random numbers.
struct Memory {
  Tensor zeros(Shape shape) {
    return Tensor(all.emplace_back(static_cast<std::size_t>(shape.numel())).data(), shape);
  }
  Tensor random(Shape shape) {
    const Tensor tensor = zeros(shape);
    Generator(3).normal(tensor.span<float>(), 0, 1);
    return tensor;
  }
  std::deque<std::vector<float>> all;
  std::vector<std::int32_t> token_list = {7, 2, 0, 5};
  Tensor tokens = Tensor(token_list.data(), {1, 4}, DType::int32);
  Context context;
  Stream& stream = *context.compute;
};

//! [tape]
struct Weight {
  Tensor data, grad;
  int pending = 0;  // uses in forward that backward has yet to visit
};

struct Step {
  Weight& weight;
  std::function<Tensor(Tensor)> backward;  // from dy to dx
};

using Tape = std::vector<Step>;

void backward(Tape& tape, Tensor d, const std::function<void(Weight&)>& complete) {
  for (; !tape.empty(); tape.pop_back()) {
    Step& step = tape.back();
    d = step.backward(d);
    if (--step.weight.pending == 0) complete(step.weight);
  }
}
//! [tape]

//! [linear]
Tensor linear(Memory& memory, Tape& tape, Weight& weight, Tensor x) {
  const Tensor y = memory.zeros({x.dim(0), weight.data.dim(0)});
  ops::matmul(memory.stream, ops::MatmulForward{x, weight.data, {}, y});
  ++weight.pending;
  tape.push_back(
      {weight, [&, x](Tensor dy) {
         const Tensor dx = memory.zeros(x.shape());
         ops::matmul(memory.stream, ops::MatmulBackward{dy, x, weight.data, dx, weight.grad, {}});
         return dx;
       }});
  return y;
}
//! [linear]

Tensor embedding(Memory& memory, Tape& tape, Weight& weight, Tensor index) {
  const Tensor y = memory.zeros({index.numel(), weight.data.dim(1)});
  ops::embedding(memory.stream, ops::EmbeddingForward{index, weight.data, y});
  ++weight.pending;
  tape.push_back({weight, [&, index](Tensor dy) {
                    ops::embedding(memory.stream, ops::EmbeddingBackward{index, dy, weight.grad});
                    return Tensor();  // a token has no slope
                  }});
  return y;
}

//! [module]
class Tied final : public nn::Module {
 public:
  Tied() : wte_(10, 8, nn::Init::normal(1)), lm_head_(wte_.weight()) {
    add("wte", wte_);
    add("lm_head", lm_head_);
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return lm_head_.forward(tape, wte_.forward(tape, x));
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return wte_.backward(tape, lm_head_.backward(tape, dy));
  }
  nn::Embedding wte_;
  nn::Linear lm_head_;
};
//! [module]

//! [hooks]
void hook(nn::Module& module, const std::string& name, int depth, std::string& trace) {
  const auto enter = [&trace, name] { trace += " " + name + "("; };
  const auto leave = [&trace] { trace += ")"; };
  module.hooks = {enter, leave, enter, leave};  // before and after forward, then backward
  if (depth == 0) return;
  for (const auto& [child, at] : module.children()) hook(*at, child, depth - 1, trace);
}
//! [hooks]

// Forward and backward of a module, and what its hooks saw: "gpt( lm_head(*))", a star for a
// gradient that is complete.
struct Run {
  Run(nn::Module& module, const std::string& name, Memory& memory, Shape logits) {
    nn::Tape tape(memory.context);
    const std::vector<nn::Parameter*> parameters = module.named_parameters();
    for (nn::Parameter* parameter : parameters) {
      parameter->data = memory.random(parameter->shape);
      parameter->grad = memory.zeros(parameter->shape);
      parameter->post_accumulate_grad = [this, parameter] {
        backward += "*";
        complete.push_back(parameter->name);
      };
      numel += parameter->shape.numel();
    }
    tape.begin(/*training=*/true);
    hook(module, name, 2, forward);
    module.forward(tape, memory.tokens);
    for (const nn::Parameter* parameter : parameters) uses += parameter->pending_uses;
    hook(module, name, 2, backward);
    module.backward(tape, memory.random(logits));
    tape.end_backward();
  }
  std::string forward, backward;
  std::vector<std::string> complete;
  std::int64_t numel = 0, uses = 0;
};

// Modules as boxes from their opening bracket to their closing one, children below parents.
void draw(lesson::Svg& svg, int top, const std::string& trace) {
  std::vector<std::pair<std::string, int>> open;  // names, and where their boxes begin
  std::string name;
  int x = 10, stars = 0;
  for (const char c : trace) {
    const int y = top + 30 * static_cast<int>(open.size());
    if (c == '*') {
      svg.rect(x - 27 + 9 * stars++, y + 30, 8, 8, lesson::colour::green);
    } else if (c == '(') {
      open.emplace_back(std::exchange(name, ""), std::exchange(x, x + 29));
    } else if (c == ')') {
      const auto [closed, begin] = open.back();
      x += 29;
      svg.rect(begin, y, x - begin, 26,
               open.size() < 3 ? lesson::colour::grey : lesson::colour::blue);
      svg.text(begin + 3, y + 17, closed);
      open.pop_back();
      stars = 0;
    } else if (c != ' ') {
      name += c;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  Memory memory;
  Tape tape;
  Weight table = {.data = memory.random({10, 8}), .grad = memory.zeros({10, 8})}, probe;
  std::vector<float> halfway;
  int complete = 0;
  const Tensor x = embedding(memory, tape, table, memory.tokens.view({4}));
  tape.push_back({probe, [&](Tensor d) {  // no operator: it only looks
                    halfway.assign(table.grad.f32(), table.grad.f32() + 80);
                    return d;
                  }});
  linear(memory, tape, table, x);
  backward(tape, memory.random({4, 10}), [&](Weight&) { ++complete; });
  std::vector<std::int64_t> incomplete;
  for (std::int64_t r = 0; r < 10; ++r) {
    const float* row = &halfway[8 * static_cast<std::size_t>(r)];
    if (!std::equal(row, row + 8, table.grad.f32() + 8 * r)) incomplete.push_back(r);
  }
  Tied tied;
  const Run small(tied, "tied", memory, {1, 4, 10});
  lesson.print(fmt::format("tied:{}, backward:{}", small.forward, small.backward));
  lesson.print(fmt::format("after the head alone, {} of 10 rows lack a part: {}", incomplete.size(),
                           fmt::join(incomplete, " ")));
  const Tensor theirs = tied.named_parameters()[0]->grad;
  lesson.claim(std::ranges::equal(table.grad.span<float>(), theirs.span<float>()), "equal bits");
  lesson.claim(complete == 1 && small.complete.size() == 1, "one gradient, complete once");

  gpt::GPT gpt({64, 52, 4, 4, 128, 0, /*bias=*/false});  // lesson 01's
  const Run run(gpt, "gpt", memory, {1, 4, 52});
  lesson.print("forward: " + run.forward);
  lesson.print("backward:" + run.backward);
  const std::size_t gradients = run.complete.size();
  lesson.print(fmt::format("{} uses, {} gradients complete", run.uses, gradients));
  lesson.print(fmt::format("first {}, last {}", run.complete.front(), run.complete.back()));
  const std::int64_t owners = run.numel + gpt.named_parameters()[0]->shape.numel();  // wte twice
  lesson.print(fmt::format("{} parameters; {} if wte counted in lm_head, too", run.numel, owners));
  lesson.answer(static_cast<std::int64_t>(incomplete.size()));
  lesson.answer(static_cast<std::int64_t>(gradients));
  lesson.answer(owners);
  lesson::Svg svg(700, 280);
  svg.text(10, 20, "forward");
  draw(svg, 0, run.forward);
  svg.text(10, 150, "backward; a green square is a gradient that is complete");
  draw(svg, 130, run.backward);
  lesson.picture(svg);
  return lesson.end("the tape by hand gives the library's gradient, to the bit");
}
