#include "fsdp/fully_shard.h"

namespace nanofsdp::fsdp {

void ShardedModel::summon_full_parameters(const std::function<void(const nn::Parameter&)>& visit) {
  for (const Unit& unit : units_) {
    unit.require_at_rest("summon_full_parameters", /*or_under_way=*/true);
    unit.require_initialised();
  }
  agree_on_values();
  for (Unit& unit : units_) {
    const bool exact = unit.precision().param_dtype == DType::float32;
    if (exact) unit.unshard(Purpose::evaluation), unit.wait_until_unsharded();
    try {
      for (ShardedParameters& row : unit.rows()) {
        const Buffer whole = exact ? Buffer() : gather_exactly(row, unit.name());
        for (const nn::Parameter* parameter : row.parameters()) {
          // A unit that is kept, or another look inside the last visit, may show other memory.
          if (!exact) row.show_parameters(whole.tensor({std::int64_t(whole.bytes() / 4)}));
          visit(*parameter);
        }
        if (!exact) context_.compute->synchronize();  // until the visitor's work has read it
      }
    } catch (...) {
      unit.end_of_use(/*keep=*/false);  // it may throw, too, so no destructor calls it
      throw;
    }
    unit.end_of_use(/*keep=*/false);
  }
}

// Returns memory that begins with the whole parameters in float32. It is empty if the rank stores
// them.
Buffer ShardedModel::gather_exactly(ShardedParameters& row, const std::string& unit) {
  auto* const group = row.at_rest().parameters ? &mesh_.gather() : nullptr;
  if (group == nullptr && row.dtype() == DType::float32) return Buffer();
  const Layout& layout = row.layout();
  const std::int64_t whole = layout.whole_numel();
  const std::int64_t travels = options_.copies() ? layout.padded_numel() : 0;
  Buffer memory = context_.buffer(MemoryClass::unsharded_parameters, whole + travels);
  const Tensor all = memory.tensor({whole + travels}), shown = all.slice(0, whole);
  const Wire wire{all.slice(whole, travels), options_.copies() ? &layout : nullptr};
  const Tensor mine = row.shards_to_gather(*context_.gather, mesh_.replicate(), unit);
  all_gather(*context_.gather, group, group ? mine : row.parameter_storage(), shown, wire,
             {.unit = unit, .control = true});
  context_.compute->wait(context_.gather->record());
  return memory;
}

}  // namespace nanofsdp::fsdp
