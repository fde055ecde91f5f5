#include "engine/scale.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/plan_report.h"
#include "engine/film.h"

namespace nanofsdp::play {

nlohmann::json plan_run(const std::vector<std::string>& args) {
  const cli::PlanOptions options = cli::parse_plan_options(args);
  const plan::Plan plan = cli::plan_of(options);
  nlohmann::json answer;
  answer["plan"] = nlohmann::json(cli::json_of(options, plan));
  // The step ends with its last span, which is the optimizer's.
  double end = 0;
  for (const Span& span : plan.spans) end = std::max(end, span.end);
  if (plan.time) answer["spans"] = spans_of(plan.spans, end - plan.time->seconds);
  return answer;
}

std::string explain_run(const std::vector<std::string>& args) {
  return cli::what_would_fit(cli::parse_plan_options(args));
}

}  // namespace nanofsdp::play
