#pragma once

#include "22_your_own_model/llama.h"

/// @file
/// @brief LoRA (Hu et al. 2021, arXiv 2106.09685): a matrix is frozen, and the product of two thin
/// matrices, which train, is added to it.

namespace llama {

//! [lora]
/// y = base x + scale * lora_B (lora_A x). lora_B starts at zero, so at first y is base x. Backward
/// writes over dy.
struct LoraLinear final : nn::Module {
  LoraLinear(std::int64_t in, std::int64_t out, std::int64_t width, float scale)
      : scale(scale),
        base({.in = in, .out = out, .bias = false}),
        lora_A({.in = in, .out = width, .bias = false}),
        lora_B({.in = width, .out = out, .bias = false}) {
    add("weight", base.own_parameters()[0].second);  // the same name as without adapters
    add("lora_A", lora_A), add("lora_B", lora_B);
    lora_A.own_parameters()[0].second->init = nn::Init::uniform(kaiming_uniform_bound(in));
    lora_B.own_parameters()[0].second->init = nn::Init::zeros();
  }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor y = lora_B.forward(tape, lora_A.forward(tape, x));
    ops::scale(tape.stream(), {.x = y, .factor = scale});
    ops::accumulate(tape.stream(), {.in = base.forward(tape, x), .out = y});
    return y;
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor dx = base.backward(tape, dy);
    ops::scale(tape.stream(), {.x = dy, .factor = scale});
    const Tensor added = lora_A.backward(tape, lora_B.backward(tape, dy));
    ops::accumulate(tape.stream(), {.in = added, .out = dx});
    return dx;
  }

  float scale;
  nn::Linear base, lora_A, lora_B;
};

/// For Llama's constructor: adapters beside queries and values, as the paper has them.
inline MakeMatrix with_adapters(std::int64_t width, float alpha) {
  return [=](const std::string& name, std::int64_t in, std::int64_t out) -> Matrix {
    if (name != "q_proj" && name != "v_proj") return linear(name, in, out);
    return std::make_unique<LoraLinear>(in, out, width, alpha / static_cast<float>(width));
  };
}

/// Only the adapters train after this call. Call it before the model is sharded.
inline void freeze_base(nn::Module& tree) {
  for (auto* p : tree.named_parameters()) p->requires_grad = p->name.find(".lora_") != p->name.npos;
}
//! [lora]

}  // namespace llama
