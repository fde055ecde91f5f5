#pragma once

#include "22_your_own_model/llama.h"

/// @file
/// @brief LoRA (Hu et al. 2021, arXiv 2106.09685): a matrix is frozen, and the product of two thin
/// matrices, which train, is added to it.

namespace llama {

//! [lora]
/// y = W x + scale * B (A x). B starts at zero, so at first y is W x. Backward writes over dy.
struct LoraLinear final : nn::Module {
  LoraLinear(std::int64_t in, std::int64_t out, std::int64_t rank, float scale)
      : scale(scale),
        W({.in = in, .out = out, .bias = false}),
        A({.in = in, .out = rank, .bias = false}),
        B({.in = rank, .out = out, .bias = false}) {
    add("weight", W.own_parameters()[0].second);  // the same name as without adapters
    add("lora_A", A), add("lora_B", B);
    A.own_parameters()[0].second->init = nn::Init::uniform(kaiming_uniform_bound(in));
    B.own_parameters()[0].second->init = nn::Init::zeros();
  }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor y = B.forward(tape, A.forward(tape, x));
    ops::scale(tape.stream(), {.x = y, .factor = scale});
    ops::accumulate(tape.stream(), {.in = W.forward(tape, x), .out = y});
    return y;
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor dx = W.backward(tape, dy);
    ops::scale(tape.stream(), {.x = dy, .factor = scale});
    ops::accumulate(tape.stream(), {.in = A.backward(tape, B.backward(tape, dy)), .out = dx});
    return dx;
  }

  float scale;
  nn::Linear W, A, B;
};

/// For Llama's constructor: adapters beside queries and values, as the paper has them.
inline MakeMatrix with_adapters(std::int64_t rank, float alpha) {
  return [=](const std::string& name, std::int64_t in, std::int64_t out) -> Matrix {
    if (name != "q_proj" && name != "v_proj") return linear(name, in, out);
    return std::make_unique<LoraLinear>(in, out, rank, alpha / static_cast<float>(rank));
  };
}

/// Only the adapters train after this call. Call it before the model is sharded.
inline void freeze_base(nn::Module& model) {
  for (nn::Parameter* p : model.named_parameters())
    p->requires_grad = p->name.find(".lora_") != std::string::npos;
}
//! [lora]

}  // namespace llama
