#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "22_your_own_model/training.h"
#include "comm/local.h"
#include "store/weights.h"

// Runs lesson 22's Llama in a directory that llama.py has written, for comparison with it:
//
//     print_llama DIRECTORY RANKS
//
//     model.safetensors  all weights, as Hugging Face has them
//     run.json           "config"; "batches" of rows of T + 1 tokens; "lr"; "lora", if adapters
//                        train; "prompt", and how many tokens to "write" after it
//
// It prints JSON: the "gradients" of the first batch and the "tokens" that it writes, both on one
// rank and before training; and the "losses" of one step for each batch.

namespace {

using namespace nanofsdp;
using lesson::Rows, lesson::Task;
using nlohmann::json;

llama::Config config_of(const json& c) {
  return {.vocab_size = c["vocab_size"],
          .hidden_size = c["hidden_size"],
          .intermediate_size = c["intermediate_size"],
          .num_hidden_layers = c["num_hidden_layers"],
          .num_attention_heads = c["num_attention_heads"],
          .num_key_value_heads = c["num_key_value_heads"],
          .rms_norm_eps = c["rms_norm_eps"],
          .rope_theta = c["rope_theta"]};
}

Task task_of(const json& run) {
  const json& batches = run["batches"];
  const auto text = [&batches](int step, std::int64_t first, Rows& rows) {
    for (std::int64_t i = 0; i < std::ssize(rows.x); ++i) {
      const json& row = batches[step][static_cast<std::size_t>(first + i / rows.T)];
      rows.x[i] = row[static_cast<std::size_t>(i % rows.T)];
      rows.y[i] = row[static_cast<std::size_t>(i % rows.T + 1)];
    }
  };
  return {.config = config_of(run["config"]),
          .rows = std::ssize(batches[0]),
          .T = std::ssize(batches[0][0]) - 1,
          .text = text,
          .steps = static_cast<int>(batches.size()),
          .lora = run["lora"],
          .lr = run["lr"]};
}

// Reads the weights of a file with the library's own reader, into a model of one unit.
lesson::Values read_values(const std::string& directory, const Task& task) {
  Context context;
  comm::Mesh mesh(comm::make_self());
  const auto model = lesson::make_model(task);
  fsdp::ShardedModel sharded(context, *model, mesh,
                             {.wrap_policy = [](const nn::Module&) { return false; }});
  store::load_weights(directory, sharded);
  lesson::Values values;
  sharded.summon_full_parameters([&](const nn::Parameter& p) {
    values[p.name] = {p.data.f32(), p.data.f32() + p.data.numel()};
  });
  return values;
}

lesson::Values gradients_of(const Task& task, lesson::Values values) {
  const auto model = lesson::make_model(task);
  lesson::give(*model, values);
  lesson::Values gradients;
  for (nn::Parameter* p : model->named_parameters()) {
    if (!p->requires_grad) continue;
    auto& of = gradients[p->name] = std::vector<float>(p->shape.numel());
    p->show_grad(Tensor(of.data(), p->shape));
  }
  Context context;
  nn::Tape tape(context);
  Rows rows(task.rows, task.T);
  task.text(0, 0, rows);
  tape.begin(/*training=*/true);
  nn::cross_entropy(tape, model->forward(tape, rows.inputs()), rows.targets(), {});
  const auto tokens = static_cast<float>(task.rows * task.T);
  model->backward(tape, nn::cross_entropy_backward(tape, 1 / tokens));
  tape.end_backward();
  return gradients;
}

// Writes the likeliest token again and again.
std::vector<std::int32_t> write(const Task& task, lesson::Values values,
                                std::vector<std::int32_t> text, int count) {
  const auto model = lesson::make_model(task);
  lesson::give(*model, values);
  Context context;
  nn::Tape tape(context);
  for (int i = 0; i < count; ++i) {
    tape.begin(/*training=*/false);
    const Tensor logits =
        model->forward(tape, Tensor(text.data(), {1, std::ssize(text)}, DType::int32));
    const auto last = logits.span<float>().last(static_cast<std::size_t>(logits.dim(2)));
    text.push_back(static_cast<std::int32_t>(std::ranges::max_element(last) - last.begin()));
    tape.end();
  }
  return text;
}

void print(const std::string& directory, int ranks) {
  const json run = json::parse(std::ifstream(directory + "/run.json"));
  const Task task = task_of(run);
  const lesson::Values values = read_values(directory, task);
  const json result{{"gradients", gradients_of(task, values)},
                    {"tokens", write(task, values, run["prompt"], run["write"])},
                    {"losses", lesson::train(ranks, task, values).losses}};
  fmt::print("{}\n", result.dump());
}

}  // namespace

int main(int argc, char** argv) try {
  print(argc > 1 ? argv[1] : ".", argc > 2 ? std::atoi(argv[2]) : 1);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "print_llama: %s\n", error.what());
  return 1;
}
