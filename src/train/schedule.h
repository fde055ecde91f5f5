#pragma once

#include <cstdint>

#include "train/options.h"

namespace nanofsdp::train {

/// @file
/// @brief The learning rate of each step: a warm-up, half a wave of cosine, and a floor.
///
///     it < w         lr (it + 1) / (w + 1)
///     w <= it <= d   min + (lr - min) (1 + cos(pi (it - w) / (d - w))) / 2
///     it > d         min
///
/// with w = warmup_iters, d = lr_decay_iters: nanoGPT's get_lr (train.py, commit 3adf61e). If
/// decay_lr is off, the rate is always `learning_rate`.

/// @param it steps made before this one
double learning_rate_at(const TrainerOptions& options, std::int64_t it);

}  // namespace nanofsdp::train
