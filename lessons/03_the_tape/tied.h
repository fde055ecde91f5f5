#pragma once

#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace lesson {

/// @file
/// @brief The model of lesson 03 as a module of the library: a table of 10 rows, used as the lookup
/// and as the head. And the same with a mistake: its backward runs in the order of forward.

using namespace nanofsdp;

//! [module]
class Tied : public nn::Module {
 public:
  Tied() : wte_(10, 8, nn::Init::normal(1)), lm_head_(wte_.weight()) {
    add("wte", wte_);
    add("lm_head", lm_head_);
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return lm_head_.forward(tape, wte_.forward(tape, x));
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return wte_.backward(tape, lm_head_.backward(tape, dy));
  }
  nn::Embedding wte_;
  nn::Linear lm_head_;
};
//! [module]

//! [hasty]
class Hasty final : public Tied {
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (const auto& [name, child] : children()) dy = child->backward(tape, dy);
    return dy;
  }
};
//! [hasty]

}  // namespace lesson
