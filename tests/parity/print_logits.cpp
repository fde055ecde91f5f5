#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/local.h"
#include "gpt/gpt.h"
#include "store/weights.h"
#include "train/model_file.h"
#include "train/pretrained.h"

// Prints the logits of a saved model for a text, for exchange.py, with one line for each position.
//
//     print_logits DIRECTORY TOKEN ...
//
// The directory was made by `nanofsdp train --out_dir`, or has Hugging Face's files (with
// config.json).

namespace {

using namespace nanofsdp;

void print_logits(const std::string& directory, const std::vector<std::int32_t>& tokens) {
  const bool pretrained = std::filesystem::exists(directory + "/config.json");
  gpt::GPT model(pretrained ? train::read_model_info(directory).config
                            : train::read_weights_info(directory).config);
  Context context;
  comm::Mesh mesh(comm::make_self());
  const auto one_unit = [](const nn::Module&) { return false; };
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = one_unit});
  if (pretrained) {
    train::load_model(directory, sharded);
  } else {
    store::load_weights(directory, sharded);
  }
  nn::Tape tape(context);
  tape.begin(/*training=*/false);
  const Tensor input = tape.allocate({1, std::ssize(tokens)}, DType::int32);
  std::copy(tokens.begin(), tokens.end(), input.data<std::int32_t>());
  const Tensor logits = sharded.forward(tape, input);
  context.compute->synchronize();
  const std::int64_t V = logits.dim(2);
  for (std::int64_t i = 0; i < logits.numel(); ++i) {
    fmt::print("{:.9g}{}", logits.f32()[i], (i + 1) % V == 0 ? "\n" : " ");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::int32_t> tokens;
  for (int i = 2; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  print_logits(argc > 1 ? argv[1] : ".", tokens);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "print_logits: %s\n", error.what());
  return 1;
}
