#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/tensor.h"
#include "data/dataset.h"
#include "frame/learner.h"
#include "gpt/gpt.h"
#include "nn/loss.h"
#include "nn/tape.h"
#include "pieces.h"

/// @file
/// @brief A training whose sharding consists of the lessons' exercises, and the library's training
/// of the same model, for comparison.
///
/// The run has three parts. First come a few steps of ZeRO-1 with momentum. Then come steps of
/// full_shard with AdamW, with two micro-batches for each step, gradients that are reduced in
/// bfloat16, and blocks that run forward again in backward. At last W ranks save the run, W + 1
/// ranks load it, and it is evaluated.

namespace lesson::mine {

using namespace nanofsdp;

/// The sizes of the training. Ranks are threads.
struct Setup {
  int W = 2;            ///< ranks, 2 to 6
  int first_steps = 4;  ///< steps with momentum, in which only the optimizer is sharded
  int steps = 8;        ///< steps under full_shard
};

inline constexpr int kMicroBatches = 2, kRows = 6;  // rows of a micro-batch, all ranks together
inline constexpr int kEvaluated = 7;                // rows of the evaluation
inline constexpr std::int64_t kContext = 32;        // tokens of a row
inline constexpr std::int64_t kAlignment = 4;       // alignment of parameters in a row
inline constexpr double kMomentumRate = 0.05, kAdamRate = 3e-3, kMaxNorm = 1;

/// A number of a run. Numbers are kept in the order in which they are computed.
struct Number {
  int step;          ///< counted from 1; 0: after the last step
  std::string what;  ///< "loss"
  double value;
  bool near = false;  ///< whether a difference of one millionth is allowed, because sums may differ
};

/// The results of a run on rank 0.
struct Outcome {
  std::vector<Number> numbers;
  std::vector<float> weights;  ///< unit by unit, after the last step
};

/// Runs the machine. @throws std::exception if a piece makes it stop
Outcome by_hand(const Pieces& pieces, const Setup& setup, const data::Dataset& text);

/// Runs the library. Its numbers have the same names in the same order.
Outcome by_library(const Setup& setup, const data::Dataset& text);

/// The first number of `yours` that differs from the library's, as text; empty if there is none.
std::string first_difference(const Outcome& yours, const Outcome& library);

/// The model's sizes.
gpt::GPTConfig config_of(const data::Dataset& text);

/// The data of one rank. Equal seeds give equal rows.
class Feed {
 public:
  Feed(const data::Dataset& text, int rank, int W, int rows, std::uint64_t seed)
      : text_(text),
        all_(rows),
        mine_{rank * rows / W, (rank + 1) * rows / W - rank * rows / W},
        generator_(seed),
        x_(static_cast<std::size_t>(mine_.count * kContext)),
        y_(x_) {}
  void next(data::Split split) { text_.draw(split, generator_, all_, mine_, {x_, y_}); }
  std::int64_t rows() const { return mine_.count; }
  Tensor x() { return {x_.data(), {rows(), kContext}, DType::int32}; }
  Tensor y() { return {y_.data(), {rows(), kContext}, DType::int32}; }
  std::span<const std::int32_t> targets() const { return y_; }

 private:
  const data::Dataset& text_;
  std::int64_t all_;
  data::BatchRows mine_;
  Generator generator_;
  std::vector<std::int32_t> x_, y_;
};

/// Runs forward of the next rows. @return their loss, summed over this rank's tokens
template <class Model>
double forward(Model& model, nn::Tape& tape, Feed& feed, data::Split split) {
  feed.next(split);
  double loss = 0;
  tape.begin(/*training=*/split == data::Split::train);
  const Tensor logits = model.forward(tape, feed.x());
  nn::cross_entropy(tape, logits, feed.y(), Tensor(&loss, {1}, DType::float64));
  return loss;
}

/// Also runs backward, which adds to the gradients.
/// @param micro_batches number of micro-batches in a step  @param last whether this is the last one
template <class Model>
float forward_backward(Model& model, nn::Tape& tape, Feed& feed, int W, int micro_batches,
                       bool last) {
  const double loss = forward(model, tape, feed, data::Split::train);
  const float share = static_cast<float>(W) / static_cast<float>(micro_batches * kRows * kContext);
  run_backward(model, tape, nn::cross_entropy_backward(tape, share), last);
  return static_cast<float>(loss);
}

}  // namespace lesson::mine
