#include <array>
#include <deque>
#include <memory>
#include <string>

#include "frame/exercise.h"
#include "frame/memory.h"
#include "nn/linear.h"
#include "the_tape_exercise.h"

namespace {

using namespace nanofsdp;
using Parameters = std::array<std::shared_ptr<nn::Parameter>, 9>;

// One module for each use. Each multiplies its input by its parameter.
class Chain final : public nn::Module {
 public:
  Chain(const Parameters& parameters, std::span<const int> uses) {
    for (const int i : uses) {
      add(std::to_string(links.size()),
          links.emplace_back(parameters[static_cast<std::size_t>(i)]));
    }
  }
  std::deque<nn::Linear> links;

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (nn::Linear& link : links) x = link.forward(tape, x);
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (std::size_t i = links.size(); i-- > 0;) dy = links[i].backward(tape, dy);
    return dy;
  }
};

// Runs the model and looks at all gradients after each module's backward: in which order do they
// reach their final values? Every part of a gradient is 1.
std::vector<int> seen(std::span<const int> uses) {
  lesson::Memory memory;
  Parameters parameters;
  for (auto& parameter : parameters) {
    parameter = std::make_shared<nn::Parameter>(Shape{1, 1}, nn::Init::ones());
    parameter->data = memory.zeros({1, 1}), parameter->show_grad(memory.zeros({1, 1}));
    *parameter->data.f32() = 1;
  }
  Chain chain(parameters, uses);
  const auto gradients = [&] {
    std::array<float, 9> all{};
    for (std::size_t i = 0; i < 9; ++i) all[i] = parameters[i]->grad().f32()[0];
    return all;
  };
  std::vector<std::array<float, 9>> after;
  for (nn::Linear& link : chain.links) {
    link.hooks.post_backward = [&](nn::Tape&) { after.push_back(gradients()); };
  }
  nn::Tape tape(memory.context);
  tape.begin(/*training=*/true);
  Tensor one = memory.zeros({1, 1});
  *one.f32() = 1;
  chain.forward(tape, one);
  chain.backward(tape, one);
  tape.end_backward();

  const auto complete = gradients();
  std::vector<int> order;
  std::array<bool, 9> told{};
  for (const auto& now : after) {
    for (std::size_t i = 0; i < 9; ++i) {
      if (complete[i] == 0 || now[i] != complete[i] || std::exchange(told[i], true)) continue;
      order.push_back(static_cast<int>(i));
    }
  }
  return order;
}

}  // namespace

// Up to 12 uses of up to 9 parameters, at random.
int main() {
  lesson::Exercise exercise("completion_order");
  Generator generator(lesson::seed(3));
  for (std::size_t n = 0; n <= 12; ++n) {
    for (int round = 0; round < 40; ++round) {
      std::vector<int> uses(n);
      for (int& use : uses) use = static_cast<int>(generator.randint(9));
      exercise.expect(fmt::format("{}", fmt::join(completion_order(uses), " ")),
                      fmt::format("{}", fmt::join(seen(uses), " ")), "used: {}",
                      fmt::join(uses, " "));
    }
  }
  return exercise.end();
}
