#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "frame/lesson.h"
#include "frame/memory.h"
#include "frame/nanogpt.h"
#include "ops/embedding.h"
#include "ops/matmul.h"
#include "tied.h"

// Lesson 03: a tape by hand under a model of two operators; the library's under the same, and under
// a GPT.

namespace {

using namespace nanofsdp;

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
Tensor linear(lesson::Memory& memory, Tape& tape, Weight& weight, Tensor x) {
  const Tensor y = memory.zeros({x.dim(0), weight.data.dim(0)});
  ops::matmul(memory.stream(), ops::MatmulForward{x, weight.data, {}, y});
  ++weight.pending;
  tape.push_back(
      {weight, [&, x](Tensor dy) {
         const Tensor dx = memory.zeros(x.shape());
         ops::matmul(memory.stream(), ops::MatmulBackward{dy, x, weight.data, dx, weight.grad, {}});
         return dx;
       }});
  return y;
}
//! [linear]

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
  Run(nn::Module& module, const std::string& name, lesson::Memory& memory, Tensor tokens)
      : parameters(module.named_parameters()) {
    nn::Tape tape(memory.context);
    for (nn::Parameter* parameter : parameters) {
      parameter->data = memory.random(parameter->shape);
      parameter->grad = memory.zeros(parameter->shape);
      parameter->post_accumulate_grad = [this] { backward += "*"; };
      numel += parameter->shape.numel();
    }
    tape.begin(/*training=*/true);
    hook(module, name, 2, forward);
    const Tensor y = module.forward(tape, tokens);
    for (const nn::Parameter* parameter : parameters) uses += parameter->pending_uses;
    hook(module, name, 2, backward);
    module.backward(tape, memory.random(y.shape()));
    tape.end_backward();
  }
  std::vector<nn::Parameter*> parameters;
  std::string forward, backward;
  std::int64_t numel = 0, uses = 0;
};

// The gradient of the tied table by hand: after the head alone, and when it is complete.
std::vector<std::vector<float>> by_hand(lesson::Memory& memory, Tensor tokens) {
  Weight table{memory.random({10, 8}), memory.zeros({10, 8})};
  std::vector<std::vector<float>> grads;
  const auto look = [&](const Weight& w) { grads.emplace_back(w.grad.f32(), w.grad.f32() + 80); };
  Tape tape;
  const Tensor x = memory.zeros({4, 8});
  ops::embedding(memory.stream(), ops::EmbeddingForward{tokens, table.data, x});
  ++table.pending;
  tape.push_back({table, [&](Tensor dy) {
                    look(table);
                    ops::embedding(memory.stream(), ops::EmbeddingBackward{tokens, dy, table.grad});
                    return Tensor();  // a token has no slope
                  }});
  linear(memory, tape, table, x);
  backward(tape, memory.random({4, 10}), look);
  return grads;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson::Memory memory;
  const Tensor tokens = memory.tokens({7, 2, 0, 5});
  lesson::Tied tied;
  const Run small(tied, "tied", memory, tokens);
  lesson.print(fmt::format("tied:{}, backward:{}", small.forward, small.backward));
  const std::vector<std::vector<float>> grads = by_hand(memory, tokens.view({4}));
  const std::span<float> theirs = small.parameters[0]->grad.span<float>();
  lesson.claim(grads.size() == 2 && std::ranges::equal(grads[1], theirs), "equal, complete once");
  std::string rows;
  for (int e = 0; e < 80; e += 8) {
    if (grads[0][e] != grads[1][e]) rows += fmt::format(" {}", e / 8);
  }
  lesson.print("after the head alone, these of 10 rows lack a part:" + rows);

  gpt::GPT gpt(lesson::nanogpt(52));
  const Run run(gpt, "gpt", memory, tokens);
  lesson.print("forward: " + run.forward + "\nbackward:" + run.backward);
  const auto gradients = std::ranges::count(run.backward, '*');
  lesson.print(fmt::format("{} uses, {} gradients complete", run.uses, gradients));
  const std::int64_t owners = run.numel + run.parameters[0]->shape.numel();  // wte twice
  lesson.print(fmt::format("{} parameters; {} if wte counted in lm_head, too", run.numel, owners));
  for (const auto n : {std::ranges::count(rows, ' '), gradients, owners}) lesson.answer(n);
  lesson::Svg svg(700, 280);
  svg.text(10, 20, "forward");
  svg.nested(10, 30, run.forward);
  svg.text(10, 150, "backward; a green square is a gradient that is complete");
  svg.nested(10, 160, run.backward);
  lesson.picture(svg);
  return lesson.end("the tape by hand gives the library's gradient, to the bit");
}
