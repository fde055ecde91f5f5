#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "26_two_dimensions/parallel.h"
#include "gpt/gpt.h"

/// @file
/// @brief The GPT around the parallel blocks, and each rank's part of its first weights.

namespace lesson {

/// gpt::GPT with parallel blocks. All that is not a block is replicated over the tensor group.
struct ParallelGPT final : nn::Module {
  ParallelGPT(comm::Communicator& group, const gpt::GPTConfig& c)
      : wte(c.vocab_size, c.n_embd, nn::Init::normal(0.02)),
        wpe(c.block_size, c.n_embd, nn::Init::normal(0.02)),
        ln_f(c.n_embd, false),
        lm_head(wte.weight()) {
    add("wte", wte), add("wpe", wpe);
    for (int i = 0; i < c.n_layer; ++i) {
      h.push_back(std::make_unique<ParallelBlock>(group, c));
      add(fmt::format("h.{}", i), *h.back());
    }
    add("ln_f", ln_f), add("lm_head", lm_head);
  }

  Tensor do_forward(nn::Tape& tape, Tensor tokens) override {
    const Tensor positions = tape.allocate(tokens.shape(), DType::int32);
    ops::arange(tape.stream(), {.x = positions.view({tokens.numel()}), .period = tokens.dim(1)});
    Tensor x = wte.forward(tape, tokens);
    ops::add(tape.stream(), {.a = x, .b = wpe.forward(tape, positions), .out = x});
    for (const auto& block : h) x = block->forward(tape, x);
    return lm_head.forward(tape, ln_f.forward(tape, x));
  }

  Tensor do_backward(nn::Tape& tape, Tensor dlogits) override {
    Tensor d = ln_f.backward(tape, lm_head.backward(tape, dlogits));
    for (auto block = h.rbegin(); block != h.rend(); ++block) d = (*block)->backward(tape, d);
    wpe.backward(tape, d), wte.backward(tape, d);
    return {};
  }

  nn::Embedding wte, wpe;
  std::vector<std::unique_ptr<ParallelBlock>> h;
  nn::LayerNorm ln_f;
  nn::Linear lm_head;
};

//! [part_of]
/// Copies this rank's part of a whole parameter. The part has a block of neighbouring elements in
/// each row if columns are divided, or else in each matrix; these are its blocks and the others' in
/// turn.
inline std::vector<float> part_of(const nn::Parameter& whole, const nn::Parameter& mine) {
  const nn::Part& cut = mine.part;
  const std::int64_t blocks = cut.dim == 1 ? mine.shape[0] : cut.groups;
  const std::int64_t n = mine.shape.numel() / blocks;
  std::vector<float> part;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const float* const begin = whole.data.f32() + (block * cut.ranks + cut.rank) * n;
    part.insert(part.end(), begin, begin + n);
  }
  return part;
}
//! [part_of]

/// Draws nanoGPT's first weights, and gives the model this rank's part of them.
/// @return the memory of the values
inline std::vector<std::vector<float>> give_part(ParallelGPT& model, const gpt::GPTConfig& c,
                                                 Generator& generator) {
  gpt::GPT all(c);
  const std::vector<nn::Parameter*> whole = all.named_parameters(),
                                    parts = model.named_parameters();
  std::vector<std::vector<float>> drawn, memory;
  for (nn::Parameter* p : whole) {
    p->data = Tensor(drawn.emplace_back(p->shape.numel()).data(), p->shape);
  }
  for (const auto& [p, init] : all.nanogpt_draws()) {
    nn::draw(generator, init, p->data.span<float>());
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    memory.push_back(part_of(*whole[i], *parts[i]));
    parts[i]->data = Tensor(memory[i].data(), parts[i]->shape);
  }
  return memory;
}

}  // namespace lesson
