#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "nn/module.h"
#include "support/tensors.h"

namespace nanofsdp::testing {

/// Memory for every parameter of a model and its gradient. This is training without FSDP, the
/// reference.
class WholeModel {
 public:
  explicit WholeModel(nn::Module& model) : parameters(model.named_parameters()) {
    for (nn::Parameter* parameter : parameters) {
      parameter->data = memory_.emplace_back(parameter->shape).view();
      parameter->show_grad(memory_.emplace_back(parameter->shape).view());
    }
  }

  /// Makes every draw of a plan in turn, also those that are overwritten.
  void initialise(const nn::DrawPlan& plan, std::uint64_t seed) {
    Generator generator(seed);
    for (const nn::Draw& draw : plan) {
      nn::draw(generator, draw.init, draw.parameter->data.span<float>());
    }
  }

  void zero_grad() {
    for (nn::Parameter* parameter : parameters) {
      for (float& x : parameter->grad().span<float>()) x = 0;
    }
  }

  nn::Parameter& operator[](const std::string& name) const {
    for (nn::Parameter* parameter : parameters) {
      if (parameter->name == name) return *parameter;
    }
    throw std::out_of_range("no parameter " + name);
  }

  std::vector<nn::Parameter*> parameters;

 private:
  std::deque<Owned<float>> memory_;
};

}  // namespace nanofsdp::testing
