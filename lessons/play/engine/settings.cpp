#include "engine/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/check.h"
#include "plan/simulated.h"

namespace nanofsdp::play {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& name, const std::string& expected, const Json& got) {
  throw UsageError({.what = "setting " + name, .expected = expected, .got = got.dump()});
}

std::int64_t integer(const std::string& name, const Json& value, std::int64_t least,
                     std::int64_t most) {
  if (value.is_number_integer() && value >= least && value <= most) return value;
  refuse(name, fmt::format("an integer, {} to {}", least, most), value);
}

bool boolean(const std::string& name, const Json& value) {
  if (value.is_boolean()) return value;
  refuse(name, "true or false", value);
}

double positive(const std::string& name, const Json& value) {
  if (value.is_number() && value > 0) return value;
  refuse(name, "a number above 0", value);
}

// The value with this name.
template <class T, std::size_t n>
T choice(const std::string& name, const Json& value,
         const std::array<std::pair<std::string_view, T>, n>& known) {
  std::string expected;
  for (const auto& [text, meaning] : known) {
    if (value.is_string() && value.get_ref<const std::string&>() == text) return meaning;
    expected += (expected.empty() ? "" : ", ") + std::string(text);
  }
  refuse(name, expected, value);
}

fsdp::ShardingStrategy strategy(const Json& value) {
  std::array<std::pair<std::string_view, fsdp::ShardingStrategy>, fsdp::kShardings.size()> known;
  for (std::size_t i = 0; i < known.size(); ++i) {
    known[i] = {fsdp::kShardings[i].name, fsdp::kShardings[i].strategy};
  }
  return choice("strategy", value, known);
}

DType dtype(const std::string& name, const Json& value) {
  return choice<DType, 2>(name, value,
                          {{{"float32", DType::float32}, {"bfloat16", DType::bfloat16}}});
}

void set(Settings& s, const std::string& name, const Json& value) {
  using Prefetch = fsdp::BackwardPrefetch;
  auto& o = s.options;
  const auto number = [&](std::int64_t least, std::int64_t most) {
    return integer(name, value, least, most);
  };
  if (name == "ranks")
    s.ranks = static_cast<int>(number(1, 8));
  else if (name == "shard_size")
    o.shard_size = static_cast<int>(number(0, 8));
  else if (name == "n_layer")
    o.n_layer = number(1, 12);
  else if (name == "n_head")
    o.n_head = number(1, 8);
  else if (name == "n_embd")
    o.n_embd = number(8, 128);
  else if (name == "block_size")
    o.block_size = number(8, 64);
  else if (name == "batch_size")
    o.batch_size = number(1, 48);
  else if (name == "gradient_accumulation_steps")
    o.gradient_accumulation_steps = number(1, 32);
  else if (name == "seed")
    o.seed = number(0, 1'000'000);
  else if (name == "forward_prefetch")
    o.forward_prefetch = static_cast<int>(number(0, 4));
  else if (name == "backward_prefetch")
    o.backward_prefetch = choice<Prefetch, 3>(
        name, value,
        {{{"none", Prefetch::none}, {"pre", Prefetch::pre}, {"post", Prefetch::post}}});
  else if (name == "strategy")
    o.strategy = strategy(value);
  else if (name == "layout")
    o.layout = choice<fsdp::LayoutKind, 2>(
        name, value,
        {{{"flat", fsdp::LayoutKind::flat}, {"per_parameter", fsdp::LayoutKind::per_parameter}}});
  else if (name == "param_dtype")
    o.precision.param_dtype = dtype(name, value);
  else if (name == "reduce_dtype")
    o.precision.reduce_dtype = dtype(name, value);
  else if (name == "recompute")
    o.recompute = boolean(name, value) ? gpt::Recompute::block : gpt::Recompute::none;
  else if (name == "no_sync")
    o.no_sync = boolean(name, value);
  else if (name == "pool")
    o.pool = boolean(name, value);
  else if (name == "parameter" && value.is_string())
    s.parameter = value;
  else if (name == "element")
    s.element = number(0, 1'000'000'000);
  else if (name == "link")
    s.link = positive(name, value);
  else if (name == "arithmetic")
    s.arithmetic = positive(name, value);
  else
    refuse(name, "a setting of the page", value);
}

}  // namespace

Settings parse_settings(std::string_view json) {
  Settings settings;
  auto& o = settings.options;
  o.n_layer = 4, o.n_head = 2, o.n_embd = 64, o.block_size = 16, o.batch_size = 8;
  o.warmup_iters = 20, o.lr_decay_iters = 1000, o.learning_rate = 3e-3;
  const Json object = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) refuse("all", "a JSON object", std::string(json));
  for (const auto& [name, value] : object.items()) set(settings, name, value);
  if (!sharding_of(o.strategy).replicates) o.shard_size = 0;
  return settings;
}

plan::Machine machine_of(const Settings& settings) {
  constexpr double kMemory = 1e12;
  return {.kind = plan::Machine::Kind::cpu,
          .memory_bandwidth = kMemory,
          .cores = plan::kStreams,
          .products_bfloat16 = settings.arithmetic,
          .products_float32 = settings.arithmetic,
          .attention = settings.arithmetic,
          .flops = settings.arithmetic,
          .node_ranks = 1,
          .node_bandwidth = settings.link,
          .network_bandwidth = settings.link};
}

}  // namespace nanofsdp::play
