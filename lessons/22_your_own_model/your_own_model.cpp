#include <fmt/format.h>
#include <nanofsdp/data/dataset.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "22_your_own_model/float64.h"
#include "22_your_own_model/picture.h"
#include "22_your_own_model/training.h"
#include "frame/lesson.h"

// Lesson 22: a model that the library has never seen. Its gradients are checked against float64, it
// trains in shards, and then only adapters train while all other parameters are frozen.

namespace {

using namespace nanofsdp;
using lesson::Run, lesson::Task, lesson::Values;
constexpr int kSteps = 30;

// Reverses the text: the last token comes first.
void backwards(lesson::Rows& rows) {
  std::ranges::reverse(rows.x), std::ranges::reverse(rows.y);
  std::swap(rows.x, rows.y);
}

Task on_tales(const data::Dataset& tales, bool lora, int steps = kSteps) {
  return {.config = {.vocab_size = 52,
                     .hidden_size = 64,
                     .intermediate_size = 176,
                     .num_hidden_layers = 4,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2},
          .rows = 12,
          .T = 64,
          .text =
              [&tales, lora](int step, std::int64_t first, lesson::Rows& rows) {
                Generator generator(static_cast<std::uint64_t>(step));  // the same on every rank
                tales.draw(data::Split::train, generator, 12, {first, std::ssize(rows.x) / 64},
                           {rows.x, rows.y});
                if (lora) backwards(rows);
              },
          .steps = steps,
          .lora = lora,
          .lr = lora ? 3e-3 : 1e-3};
}

std::int64_t numel(const llama::Config& config) {
  std::int64_t sum = 0;
  for (const nn::Parameter* p : llama::Llama(config).named_parameters()) sum += p->shape.numel();
  return sum;
}

std::int64_t numel_of_adapters(const Values& values) {
  std::int64_t sum = 0;
  for (const auto& [name, value] : values) {
    if (name.find(".lora_") != std::string::npos) sum += std::ssize(value);
  }
  return sum;
}

bool unchanged(const Values& base, const Values& after) {
  for (const auto& [name, values] : base) {
    if (after.at(name) != values) return false;
  }
  return true;
}

std::string losses_at(const Run& run) {
  return fmt::format("{:>9.4f}{:>9.4f}{:>9.4f}", run.losses[0], run.losses[9], run.losses[29]);
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const data::Dataset tales = data::load_dataset({});
  const Task all = on_tales(tales, false), adapters = on_tales(tales, true);
  llama::Config wide = all.config;
  wide.num_key_value_heads = wide.num_attention_heads;
  const std::int64_t n = numel(all.config), saved = (numel(wide) - n) / wide.num_hidden_layers;
  lesson.print(fmt::format("{} parameters; grouped queries save {} of each block", n, saved));
  lesson.answer(saved);

  const lesson::Truth truth(std::ifstream(NANOFSDP_GOLDEN "/llama.txt"));
  const auto gradients = lesson::measure_gradients();
  int near = 0;
  for (const auto& [name, gradient] : gradients) near += gradient.is_near(truth.gradients.at(name));
  lesson.print(fmt::format("gradients of a tiny one: {} of {} within 2e-6 of float64", near,
                           gradients.size()));
  lesson.claim(near == std::ssize(gradients), "gradients are those of float64");

  lesson.print("loss of                  step 1  step 10  step 30   near those of 1 rank");
  const auto compare = [&](const std::string& name, const Task& task, const Values& start) {
    const Run one = lesson::train(1, task, start), three = lesson::train(3, task, start);
    const int same = lesson::count_near(three.losses, one.losses);
    lesson.print(fmt::format("{:<22}{}", name + ", 1 rank", losses_at(one)));
    lesson.print(
        fmt::format("{:<22}{}{:>17} of {}", name + ", 3 ranks", losses_at(three), same, kSteps));
    lesson.claim(same == kSteps, name + ": 3 ranks have the losses of 1");
    return one;
  };
  const Run base = compare("all", all, {});
  const Run adapted = compare("adapters", adapters, base.values);
  const bool frozen = unchanged(base.values, adapted.values);
  const std::int64_t few = numel_of_adapters(adapted.values);
  lesson.print(fmt::format("{} parameters in adapters; the base after 30 steps with them: {}", few,
                           frozen ? "equal" : "differs"));
  lesson.claim(frozen, "the base is frozen");

  lesson.print("bytes of rank 0 of 4   parameters  gradients  optimizer     sent  reduce-scatters");
  const auto weigh = [&](const char* name, bool lora) {
    Run run = lesson::train(4, on_tales(tales, lora, 2), base.values);
    lesson.print(fmt::format(
        "{:<20}{:>13}{:>11}{:>11}{:>9}{:>17}", name, run.bytes[MemoryClass::parameter_shards],
        run.bytes[MemoryClass::gradient_shards], run.bytes[MemoryClass::optimizer],
        run.traffic.bytes_sent, run.traffic.reduce_scatters));
    return run;
  };
  Run heavy = weigh("all train", false), light = weigh("adapters train", true);
  lesson.claim(light.bytes[MemoryClass::gradient_shards] == 4 * few / 4, "gradients of adapters");
  lesson.claim(light.bytes[MemoryClass::optimizer] == 8 * few / 4, "moments of adapters");
  lesson.answer(light.bytes[MemoryClass::gradient_shards] + light.bytes[MemoryClass::optimizer]);
  lesson.answer(light.traffic.reduce_scatters);
  lesson.picture(lesson::drawing(heavy, light));
  return lesson.end("a model of one's own trains sharded, and adapters alone cost what they weigh");
}
