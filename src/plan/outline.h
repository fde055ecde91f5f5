#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "nn/module.h"

namespace nanofsdp::plan {

/// @file
/// @brief A model in outline: the shapes of its parameters, the memory that its layers keep, the
/// costs of their kernels. The engine shards and plans it like any other model, but it cannot
/// compute.

/// A kernel: a product, or attention, or elementwise work, or a sum over the tensor group.
struct Kernel {
  std::int64_t in = 0, out = 0;  ///< a product of [tokens, in] and [in, out], in the input's dtype
  std::int64_t attention = 0;    ///< operations for each pair of a token and one that it sees
  std::int64_t bytes = 0;        ///< elementwise: bytes read or written for each token
  std::int64_t summed = 0;       ///< bytes for each token, even, that the tensor group adds up
  int launches = 1;              ///< how many kernels are launched for it
};

/// A layer's work in one direction.
struct Pass {
  std::vector<std::int64_t> temporaries{};  ///< bytes for each token, even, during this work
  std::vector<Kernel> kernels{};            ///< in their order
};

/// A layer, and the layers that follow it. Their paths are layers.0, layers.1 ...
struct Layer {
  bool is_unit = false;             ///< by is_block()
  std::vector<Shape> parameters{};  ///< all of them get a gradient
  std::int64_t width = 0;           ///< elements of its output for each token; 0: returns its input
  DType dtype = DType::float32;     ///< dtype of its output
  std::int64_t kept = 0;            ///< bytes for each token, even, kept until its backward ends
  Pass forward{};                   ///< makes the output
  Pass backward{};                  ///< makes the gradients
  std::vector<Layer> behind{};      ///< each takes the output of the one before it
};

/// The layers as a module. It takes tokens [B, T] and returns the output of the last layer.
class Outline final : public nn::Module {
 public:
  explicit Outline(const Layer& layer);  ///< its name does not matter
  const Layer layer;                     ///< the layers

  /// Sets the tensor group, which outlives the outline. Layers with sums need it.
  void set_tensor(comm::Communicator& group);

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override;
  Tensor do_backward(nn::Tape& tape, Tensor dy) override;

  std::vector<std::unique_ptr<Outline>> behind_;
  comm::Communicator* tensor_ = nullptr;
};

/// Whether a module is a usual unit: a layer with is_unit, or a block of a GPT.
bool is_block(const nn::Module& module);

}  // namespace nanofsdp::plan
