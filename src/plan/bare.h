#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/module.h"

namespace nanofsdp::plan {

/// @file
/// @brief A number of parameters, of which nothing else is known.

/// Units of so many parameters each, and the rest in the root. Takes tokens, gives each a logit.
class Bare final : public nn::Module {
 public:
  /// @param units parameters of each; 0: none of its own
  explicit Bare(const std::vector<std::int64_t>& units, std::int64_t root);

  /// One of its units.
  struct Unit;

 private:
  Tensor do_forward(nn::Tape& tape, Tensor tokens) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  std::vector<std::unique_ptr<nn::Module>> units_;
};

/// Which of its modules are units.
bool is_bare_unit(const nn::Module& module);

}  // namespace nanofsdp::plan
