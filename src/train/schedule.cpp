#include "train/schedule.h"

#include <cmath>
#include <numbers>

namespace nanofsdp::train {

double learning_rate_at(const TrainerOptions& o, std::int64_t it) {
  if (!o.decay_lr) return o.learning_rate;
  const auto step = static_cast<double>(it);
  const auto warmup = static_cast<double>(o.warmup_iters);
  if (it < o.warmup_iters) return o.learning_rate * (step + 1) / (warmup + 1);
  if (it > o.lr_decay_iters) return o.min_lr;
  const double ratio = (step - warmup) / (static_cast<double>(o.lr_decay_iters) - warmup);
  return o.min_lr + 0.5 * (1 + std::cos(std::numbers::pi * ratio)) * (o.learning_rate - o.min_lr);
}

}  // namespace nanofsdp::train
