#include "plan/shapes.h"

#include <algorithm>
#include <utility>

#include "fsdp/sharded_parameters.h"
#include "fsdp/wrap.h"
#include "gpt/gpt.h"

namespace nanofsdp::plan {

UnitShapes gpt_shapes(const gpt::GPTConfig& config) {
  gpt::GPT model(config);
  UnitShapes units;
  for (const fsdp::WrappedModule& unit : fsdp::wrap(model, fsdp::is_a<gpt::Block>)) {
    units.push_back(fsdp::specs_of(unit.parameters));
  }
  return units;
}

UnitShapes llama_shapes(const LlamaConfig& c) {
  const std::vector<fsdp::ParameterSpec> block = {
      {"attention_norm.weight", {c.n_embd}},
      {"attention.wq.weight", {c.n_embd, c.n_embd}},
      {"attention.wk.weight", {c.n_kv, c.n_embd}},
      {"attention.wv.weight", {c.n_kv, c.n_embd}},
      {"attention.wo.weight", {c.n_embd, c.n_embd}},
      {"ffn_norm.weight", {c.n_embd}},
      {"feed_forward.w1.weight", {c.n_inner, c.n_embd}},
      {"feed_forward.w3.weight", {c.n_inner, c.n_embd}},
      {"feed_forward.w2.weight", {c.n_embd, c.n_inner}}};
  UnitShapes units(static_cast<std::size_t>(c.n_layer), block);
  units.push_back({{"tok_embeddings.weight", {c.vocab_size, c.n_embd}},
                   {"norm.weight", {c.n_embd}},
                   {"output.weight", {c.vocab_size, c.n_embd}}});
  return units;
}

UnitShapes bare_shapes(std::int64_t numel, std::int64_t unit) {
  UnitShapes units;
  for (; unit > 0 && numel >= unit; numel -= unit) units.push_back({{"unit", {unit}}});
  units.push_back({{"rest", {numel}}});
  return units;
}

UnitShapes merged(UnitShapes units, std::int64_t blocks) {
  UnitShapes result;
  std::int64_t at = 0;
  for (auto& unit : units) {
    const bool root = &unit == &units.back();
    if (root || at++ % blocks == 0) result.emplace_back();
    std::ranges::move(unit, std::back_inserter(result.back()));
  }
  return result;
}

}  // namespace nanofsdp::plan
