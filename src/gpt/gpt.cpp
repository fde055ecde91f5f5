#include "gpt/gpt.h"

#include <fmt/format.h>

#include <utility>

#include "ops/elementwise.h"

namespace nanofsdp::gpt {
namespace {

const GPTConfig& validated(const GPTConfig& config) {
  const auto require = [](bool holds, const char* what, std::string expected, auto got) {
    if (!holds) NANOFSDP_REFUSE(what, std::move(expected), fmt::to_string(got));
  };
  const std::pair<const char*, std::int64_t> sizes[] = {{"block_size", config.block_size},
                                                        {"vocab_size", config.vocab_size},
                                                        {"n_layer", config.n_layer},
                                                        {"n_head", config.n_head},
                                                        {"n_embd", config.n_embd}};
  for (const auto& [name, size] : sizes) require(size >= 1, name, "at least 1", size);
  require(config.n_embd % config.n_head == 0, "n_embd",
          fmt::format("a multiple of n_head = {}", config.n_head), config.n_embd);
  require(config.dropout >= 0 && config.dropout < 1, "dropout", "0 <= dropout < 1", config.dropout);
  return config;
}

// The positions 0, 1, ..., T - 1 in every row. With a cache, the positions after those that it
// holds.
Tensor positions_of(nn::Tape& tape, const Tensor& tokens) {
  const std::int64_t held = tape.cache() == nullptr ? 0 : tape.cache()->length();
  const Tensor positions = tape.allocate({held + tokens.numel()}, DType::int32);
  ops::arange(tape.stream(), {.x = positions, .period = held + tokens.dim(1)});
  return positions.slice(held, tokens.numel()).view(tokens.shape());
}

}  // namespace

Transformer::Transformer(const GPTConfig& config)
    : wte_(config.vocab_size, config.n_embd, nn::Init::normal(0.02)),
      wpe_(config.block_size, config.n_embd, nn::Init::normal(0.02)),
      drop_(config.dropout),
      ln_f_(config.n_embd, config.bias) {
  add("wte", wte_);
  add("wpe", wpe_);
  add("drop", drop_);
  for (int i = 0; i < config.n_layer; ++i)
    add(fmt::format("h.{}", i), *h_.emplace_back(std::make_unique<Block>(config)));
  add("ln_f", ln_f_);
}

Tensor Transformer::do_forward(nn::Tape& tape, Tensor tokens) {
  const Tensor embedded = wte_.forward(tape, tokens);
  Tensor x = wpe_.forward(tape, positions_of(tape, tokens));
  ops::add(tape.stream(), {.a = embedded, .b = x, .out = x});
  x = drop_.forward(tape, x);
  // Keeps the output of one block at a time.
  nn::Tape::Scope stream(tape, /*frees=*/!tape.training());
  for (const auto& block : h_) x = stream.keep(block->forward(tape, x));
  return stream.keep(ln_f_.forward(tape, x));
}

Tensor Transformer::do_backward(nn::Tape& tape, Tensor dy) {
  Tensor d = ln_f_.backward(tape, dy);
  for (std::size_t i = h_.size(); i-- > 0;) d = h_[i]->backward(tape, d);
  d = drop_.backward(tape, d);
  wpe_.backward(tape, d);
  wte_.backward(tape, d);
  return {};
}

GPT::GPT(const GPTConfig& config)
    : config_(validated(config)), transformer_(config), lm_head_(transformer_.token_weight()) {
  add("transformer", transformer_);
  add("lm_head", lm_head_);
}

Tensor GPT::do_forward(nn::Tape& tape, Tensor tokens) {
  Tensor x = transformer_.forward(tape, tokens);
  if (tape.cache() == nullptr) return lm_head_.forward(tape, x);
  // Decoding needs the logits of the last position only.
  x = lm_head_.forward(tape, x.slice(x.numel() - x.dim(2), x.dim(2)).view({1, 1, x.dim(2)}));
  tape.cache()->advance(tokens.dim(1));
  return x;
}

Tensor GPT::do_backward(nn::Tape& tape, Tensor dlogits) {
  return transformer_.backward(tape, lm_head_.backward(tape, dlogits));
}

}  // namespace nanofsdp::gpt
