#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"

namespace nanofsdp::plan {

/// @file
/// @brief A model of which only the outline is known: the shapes of its parameters, what its layers
/// keep, what their kernels cost. The engine shards and plans it as any other; it cannot compute.

/// A kernel of one of three kinds.
struct Kernel {
  std::int64_t in = 0, out = 0;  ///< a product of [tokens, in] and [in, out]; of the input's dtype
  std::int64_t attention = 0;    ///< operations for each pair of a token and one that it sees
  std::int64_t bytes = 0;        ///< that elementwise work reads or writes for a token
  int launches = 1;              ///< so many kernels are it
};

/// A layer's work in one direction.
struct Pass {
  std::vector<std::int64_t> temporaries{};  ///< bytes a token, even, as long as it lasts
  std::vector<Kernel> kernels{};            ///< in their order
};

/// A layer, and the layers behind it.
struct Layer {
  std::string name{};               ///< its path, "layers.0"
  bool is_unit = false;             ///< by is_block()
  std::vector<Shape> parameters{};  ///< all of them get a gradient
  std::int64_t width = 0;           ///< elements a token of its output; 0: that is its input
  DType dtype = DType::float32;     ///< of its output
  std::int64_t kept = 0;            ///< bytes a token, even, that stay until the end of backward
  Pass forward{};                   ///< makes the output
  Pass backward{};                  ///< makes the gradients
  std::vector<Layer> behind{};      ///< each takes the output of the one before, the first its own
};

/// The layers as a module. Takes tokens [B, T], gives what the last layer gives.
class Outline final : public nn::Module {
 public:
  explicit Outline(const Layer& layer);  ///< its name does not matter
  const Layer layer;                     ///< as it was made

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  std::vector<std::unique_ptr<Outline>> behind_;
};

/// Which modules are the usual units: layers that say so, and the blocks of a GPT.
bool is_block(const nn::Module& module);

}  // namespace nanofsdp::plan
