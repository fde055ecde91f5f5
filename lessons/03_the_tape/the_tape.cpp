#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "frame/lesson.h"
#include "frame/memory.h"
#include "frame/nanogpt.h"
#include "ops/embedding.h"
#include "ops/matmul.h"
#include "run.h"
#include "tied.h"

// Lesson 03: a tape by hand, for a model of two operators; then the library's tape, for the same
// model and for a GPT.

namespace {

using namespace nanofsdp;

//! [tape]
struct Note {
  std::string by;  // the module that saved it
  Tensor x;
};

struct Tape {
  void save(const std::string& by, Tensor x) { notes.push_back({by, x}); }

  Tensor restore(const std::string& by) {
    const Note last = notes.back();
    if (last.by != by) throw std::logic_error(by + " restores what " + last.by + " saved");
    notes.pop_back();
    return last.x;
  }

  std::vector<Note> notes;
};
//! [tape]

//! [linear]
struct Weight {
  Tensor data, grad;
};

Tensor forward(lesson::Memory& memory, Tape& tape, const Weight& weight, Tensor x) {
  const Tensor y = memory.zeros({x.dim(0), weight.data.dim(0)});
  ops::matmul(memory.stream(), ops::MatmulForward{x, weight.data, {}, y});
  tape.save("lm_head", x);
  return y;
}

Tensor backward(lesson::Memory& memory, Tape& tape, const Weight& weight, Tensor dy) {
  const Tensor x = tape.restore("lm_head"), dx = memory.zeros(x.shape());
  ops::matmul(memory.stream(), ops::MatmulBackward{dy, x, weight.data, dx, weight.grad, {}});
  return dx;  // and has added to weight.grad
}
//! [linear]

struct ByHand {
  std::vector<std::vector<float>> grads;  // the table's: after the head, after the lookup
  std::string error;                      // when the lookup's backward is called first
};

ByHand by_hand(lesson::Memory& memory, Tensor tokens) {
  ByHand run;
  const Weight table{memory.random({10, 8}), memory.zeros({10, 8})};
  const auto look = [&] { run.grads.emplace_back(table.grad.f32(), table.grad.f32() + 80); };
  const Tensor x = memory.zeros({4, 8}), dy = memory.random({4, 10});
  Tape tape;
  ops::embedding(memory.stream(), ops::EmbeddingForward{tokens, table.data, x});
  tape.save("wte", tokens);
  forward(memory, tape, table, x);
  try {
    tape.restore("wte");
  } catch (const std::logic_error& error) {
    run.error = error.what();
  }
  const Tensor dx = backward(memory, tape, table, dy);
  look();  // the head's part
  ops::embedding(memory.stream(), ops::EmbeddingBackward{tape.restore("wte"), dx, table.grad});
  look();  // both parts
  return run;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson::Memory memory;
  const Tensor tokens = memory.tokens({7, 2, 0, 5});
  lesson::Tied tied;
  const lesson::Run small(tied, "tied", memory, tokens);
  lesson.print(fmt::format("tied:{}, backward:{}", small.forward, small.backward));
  const ByHand ours = by_hand(memory, tokens.view({4}));
  const std::span<const float> theirs = small.parameters[0]->grad().span<float>();
  lesson.claim(std::ranges::equal(ours.grads[1], theirs), "the gradient by hand");
  std::string rows;
  for (int e = 0; e < 80; e += 8) {
    if (ours.grads[0][e] != ours.grads[1][e]) rows += fmt::format(" {}", e / 8);
  }
  lesson.print("after the head alone, these of 10 rows lack a part:" + rows);
  lesson::Hasty hasty;
  const lesson::Run wrong(hasty, "hasty", memory, tokens);
  lesson.print("wrong order, by hand: " + ours.error);
  lesson.print("wrong order, library: " + wrong.error.substr(0, wrong.error.find(';')));

  gpt::GPT gpt(lesson::nanogpt(52));
  const lesson::Run run(gpt, "gpt", memory, tokens);
  lesson.print("forward: " + run.forward + "\nbackward:" + run.backward);
  const auto all = std::ssize(run.parameters);
  const auto in_blocks = std::ranges::count_if(run.parameters, [](const nn::Parameter* parameter) {
    return parameter->name.starts_with("transformer.h.");
  });
  lesson.print(fmt::format("{} parts of {} gradients: {} done with their block, {} with the model",
                           std::ranges::count(run.backward, '*'), all, in_blocks, all - in_blocks));
  for (const auto n : {std::ranges::count(rows, ' '), all, all - in_blocks}) lesson.answer(n);
  lesson::Svg svg(480, 350);
  svg.text(10, 20, "Which module is at work when: forward and backward of nanoGPT");
  svg.rect(10, 34, 12, 12, lesson::colour::parameters);
  svg.text(28, 45, "module that computes (drop has no parameters)");
  svg.rect(13, 57, 6, 6, lesson::colour::gradients), svg.text(28, 65, "a part of a gradient");
  svg.text(10, 98, "forward, time goes to the right"), svg.nested(10, 108, run.forward);
  svg.text(10, 227, "backward, time goes to the right"), svg.nested(10, 237, run.backward);
  lesson.picture(svg);
  return lesson.end("the tape by hand gives the library's gradient, to the bit");
}
