#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/transfer.h"
#include "comm/agreement.h"
#include "store/checkpoint.h"
#include "train/trainer.h"

// If one gradient has an infinity or a NaN, the norm of all gradients is not finite, then the
// coefficient that clips them, and then every weight. So such a run ends, and saves no more.

namespace nanofsdp::train {
namespace {

using NamedTensor = std::pair<std::string, Tensor>;

// The name of the first of `tensors` that is not finite on any rank; empty if all are finite.
// Collective. It reads every number, so it is used only at the end of a run and for checkpoints.
std::string first_not_finite(Context& context, comm::Mesh& mesh,
                             const std::vector<NamedTensor>& tensors) {
  std::vector<float> room;
  const auto is_finite = [&](const NamedTensor& tensor) {
    return std::ranges::all_of(on_host<float>(*context.compute, tensor.second, room),
                               [](float x) { return std::isfinite(x); });
  };
  auto mine = static_cast<double>(std::ranges::find_if_not(tensors, is_finite) - tensors.begin());
  std::vector<double> all(static_cast<std::size_t>(mesh.size()));
  comm::gather_on_host(mesh.world(), *context.compute, Tensor(&mine, {1}, DType::float64),
                       Tensor(all.data(), {mesh.size()}, DType::float64), "finite");
  const auto first = static_cast<std::size_t>(*std::ranges::min_element(all));
  return first < tensors.size() ? tensors[first].first : "";
}

// Shows a number that is never negative, without the sign that a NaN may have.
std::string shown(double x) { return fmt::to_string(std::abs(x)); }

}  // namespace

// Ends the run on every rank. All ranks have the same numbers, so all give the same error.
void Trainer::stop(std::int64_t iteration, const std::string& got) const {
  std::string hint = "try a smaller --learning_rate, more --warmup_iters, or --grad_clip=1";
  if (options_.precision.param_dtype != DType::float32) hint += ", or --param_dtype=float32";
  if (saved_ >= 0)
    hint += fmt::format("; '{}' is still the checkpoint of iteration {}, for --init_from=resume",
                        store::checkpoint_path(options_.out_dir).string(), saved_);
  throw RunError({.what = fmt::format("training stopped at iteration {}", iteration),
                  .expected = "finite numbers",
                  .got = got,
                  .hint = hint});
}

void Trainer::require_finite(std::int64_t iteration, const StepResult& result) {
  if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) return;
  std::vector<NamedTensor> gradients;
  for (const fsdp::Unit& unit : sharded_.units())
    gradients.push_back({unit.name(), unit.trains() ? unit.rows()[0].gradient_shard() : Tensor()});
  // The order in which backward reduces the units: reversed, with the root last.
  std::reverse(gradients.begin(), gradients.end() - 1);
  const std::string first = first_not_finite(context_, mesh_, gradients);
  stop(iteration,
       fmt::format("loss {}, gradient norm {}; {}", shown(result.loss), shown(result.grad_norm),
                   first.empty() ? "all gradients are finite"
                                 : "in backward, the gradient of " + first +
                                       " is the first that is not finite"));
}

void Trainer::require_finite(std::int64_t iteration, const EvalResult& result) {
  if (std::isfinite(result.train_loss) && std::isfinite(result.val_loss)) return;
  require_finite_state(iteration);
  stop(iteration, fmt::format("train loss {}, val loss {}; all parameters are finite",
                              shown(result.train_loss), shown(result.val_loss)));
}

// Requires that the state of a checkpoint is finite: parameters, and Adam's moments.
void Trainer::require_finite_state(std::int64_t iteration) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < sharded_.units().size(); ++i) {
    const fsdp::Unit& unit = sharded_.units()[i];
    const auto look_at = [&](const std::string& what, const Tensor& tensor) {
      tensors.push_back({what + " of " + unit.name(), tensor});
    };
    for (const fsdp::ShardedParameters& row : unit.rows())
      look_at("parameters", row.parameter_shard());
    for (std::size_t s = 0; s < optimizer_.state_names().size(); ++s)
      look_at(optimizer_.state_names()[s], optimizer_.state(i)[s]);
  }
  const std::string first = first_not_finite(context_, mesh_, tensors);
  if (!first.empty()) stop(iteration, first + " that are not finite");
}

}  // namespace nanofsdp::train
