#include "data/batch_plan.h"

#include <fmt/format.h>

#include "base/check.h"

namespace nanofsdp::data {
namespace {

bool shares_micro_batches(const StepShape& s) {
  return s.gradient_accumulation_steps % s.ranks == 0;
}

}  // namespace

BatchRows share_of(std::int64_t rows, int ranks, int rank) {
  const auto begin = [&](std::int64_t r) { return (r * rows + ranks - 1) / ranks; };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

void check_step(const StepShape& s) {
  const std::string got =
      fmt::format("--ranks={} with --batch_size={} and --gradient_accumulation_steps={}", s.ranks,
                  s.batch_size, s.gradient_accumulation_steps);
  NANOFSDP_REFUSE_IF(s.rows() < s.ranks, .what = "fewer rows than ranks",
                     .expected = "at least one row of a step for each rank", .got = got,
                     .hint = fmt::format("--batch_size={} or --ranks={}", s.ranks, s.rows()));
  NANOFSDP_REFUSE_IF(
      !shares_micro_batches(s) && s.batch_size < s.ranks,
      .what = "fewer rows in a micro-batch than ranks",
      .expected = "at least one for each rank, or accumulation steps that divide", .got = got,
      .hint = fmt::format("--batch_size={0} or --gradient_accumulation_steps={0}", s.ranks));
}

std::int64_t micro_steps_per_rank(const StepShape& s) {
  return s.gradient_accumulation_steps / (shares_micro_batches(s) ? s.ranks : 1);
}

std::vector<MicroStep> plan_step(const StepShape& s, int rank) {
  check_step(s);
  const bool whole = shares_micro_batches(s);
  const std::int64_t steps = micro_steps_per_rank(s);
  const std::int64_t first_index = whole ? rank * steps : 0;
  const BatchRows rows = whole ? BatchRows{0, s.batch_size} : share_of(s.batch_size, s.ranks, rank);
  std::vector<MicroStep> plan;
  for (std::int64_t i = 0; i < steps; ++i) plan.push_back({first_index + i, rows});
  return plan;
}

}  // namespace nanofsdp::data
