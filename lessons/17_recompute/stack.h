#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "frame/memory.h"
#include "frame/nanogpt.h"
#include "nn/init.h"

/// @file
/// @brief A stack of blocks with weights: a GPT without its embedding and its head.

namespace lesson {

using namespace nanofsdp;

/// The events of a step: "U.h.0" when the weights of h.0 were gathered, "R.h.0" when they were
/// discarded.
using Order = std::vector<std::string>;

/// Gathers and discards the weights of a module. In lesson 11 they come from all ranks; here they
/// come from a copy.
class Weights {
 public:
  Weights(std::string name, nn::Module& module, Order& order)
      : name_(std::move(name)), order_(order) {
    for (nn::Parameter* p : module.named_parameters()) {
      const std::span<float> values = p->data.span<float>();
      kept_.emplace_back(p->data, std::vector<float>(values.begin(), values.end()));
    }
  }
  void gather() {
    order_.push_back("U." + name_);
    for (const auto& [data, kept] : kept_) std::ranges::copy(kept, data.f32());
  }
  void discard() {
    order_.push_back("R." + name_);
    for (const auto& [data, kept] : kept_) std::ranges::fill(data.span<float>(), NAN);
  }

 private:
  std::string name_;
  Order& order_;
  std::vector<std::pair<Tensor, std::vector<float>>> kept_;
};

/// Calls its layers in turn.
class Layers final : public nn::Module {
 public:
  std::vector<nn::Module*> all;

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    for (nn::Module* layer : all) x = layer->forward(tape, x);
    return x;
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    for (std::size_t i = all.size(); i-- > 0;) dy = all[i]->backward(tape, dy);
    return dy;
  }
};

class Stack {
 public:
  /// Makes the module that the stack calls instead of a block. If there is none, the stack calls
  /// the block itself.
  using Wrap = std::function<std::unique_ptr<nn::Module>(gpt::Block&)>;

  explicit Stack(int n_layer, const Wrap& wrap = nullptr) : tape_(memory_.context) {
    Generator generator(1337);
    for (int i = 0; i < n_layer; ++i) {
      gpt::GPTConfig config = nanogpt(65);
      config.dropout = 0.1f;
      gpt::Block& block = blocks.emplace_back(config);
      for (nn::Parameter* p : block.named_parameters()) {
        p->data = memory_.zeros(p->shape), p->show_grad(memory_.zeros(p->shape));
        nn::draw(generator, p->init, p->data.span<float>());
      }
      if (wrap) wrappers_.push_back(wrap(block));
      layers_.all.push_back(wrap ? wrappers_.back().get() : &block);
    }
  }

  /// Forward and backward of 6 rows. @return bytes of activations, as the ledger has them
  std::int64_t forward_backward() {
    const Tensor x = memory_.random({6, 64, 128}, 1), dy = memory_.random({6, 64, 128}, 2);
    tape_.begin(/*training=*/true, {.seed = 1});
    layers_.forward(tape_, x);
    layers_.backward(tape_, dy);
    tape_.end_backward();
    return memory_.context.ledger.count(MemoryClass::activations).reserved;
  }

  std::vector<float> gradients() {
    std::vector<float> all;
    for (gpt::Block& block : blocks) {
      for (const nn::Parameter* p : block.named_parameters()) {
        const std::span<const float> grad = p->grad().span<float>();
        all.insert(all.end(), grad.begin(), grad.end());
      }
    }
    return all;
  }

  std::deque<gpt::Block> blocks;
  nn::Module& layer(std::size_t i) {
    return *layers_.all[i];
  }  ///< the block, or the module around it

 private:
  Memory memory_;
  nn::Tape tape_;
  Layers layers_;
  std::vector<std::unique_ptr<nn::Module>> wrappers_;
};

}  // namespace lesson
