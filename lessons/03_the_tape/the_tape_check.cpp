#include <deque>
#include <string>

#include "base/context.h"
#include "base/rng.h"
#include "frame/exercise.h"
#include "nn/tape.h"
#include "the_tape_exercise.h"

namespace {

using namespace nanofsdp;

// What the library's tape reports. Parameters are numbered from 0.
std::vector<int> reported(std::span<const int> uses) {
  Context context;
  nn::Tape tape(context);
  std::vector<int> order;
  std::deque<nn::Parameter> parameters;
  for (int i = 0; i < 9; ++i) {
    parameters.emplace_back(Shape{1}, nn::Init::zeros());
    parameters.back().post_accumulate_grad = [&order, i] { order.push_back(i); };
  }
  tape.begin(/*training=*/true);
  for (const int i : uses) tape.use(parameters[static_cast<std::size_t>(i)]);
  for (std::size_t at = uses.size(); at-- > 0;) {
    tape.accumulated(parameters[static_cast<std::size_t>(uses[at])]);
  }
  return order;
}

}  // namespace

// Up to 12 uses of up to 9 parameters, at random.
int main() {
  lesson::Exercise exercise("completion_order");
  Generator generator(3);
  for (std::size_t n = 0; n <= 12; ++n) {
    for (int round = 0; round < 40; ++round) {
      std::vector<int> uses(n);
      for (int& use : uses) use = static_cast<int>(generator.randint(9));
      exercise.expect(fmt::format("{}", fmt::join(completion_order(uses), " ")),
                      fmt::format("{}", fmt::join(reported(uses), " ")), "used: {}",
                      fmt::join(uses, " "));
    }
  }
  return exercise.end();
}
