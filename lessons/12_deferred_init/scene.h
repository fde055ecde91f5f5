#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/nanogpt.h"
#include "fsdp/fully_shard.h"
#include "fsdp/layout.h"

/// @file
/// @brief What lesson 12 needs besides its idea: the shards of lessons 07 and 08, models made by
/// somebody who has room for all of one, and the picture.

namespace lesson {

using namespace nanofsdp;

inline constexpr std::uint64_t kSeed = 1337;

/// One draw of a plan: some module's turn to fill its parameter.
struct Draw {
  std::string owner;  ///< path of the module
  nn::Parameter* parameter;
  std::int64_t numel() const { return parameter->shape.numel(); }
  bool is_random() const { return parameter->init.kind == nn::Init::Kind::normal; }
};

/// The shards of one rank, still empty, and where in them each parameter's piece belongs.
struct Homes {
  struct Home {
    Tensor shard;
    fsdp::Piece piece;
  };

  Homes(Context& context, const std::vector<fsdp::WrappedModule>& units) {
    for (const fsdp::WrappedModule& unit : units) {
      std::vector<fsdp::ParameterSpec> specs;
      for (const nn::Parameter* p : unit.parameters) {
        specs.push_back({p->name, p->shape});
        largest = std::max(largest, p->shape.numel());
      }
      const fsdp::Layout layout(specs, context.world_size);
      const std::int64_t numel = layout.shard_numel();
      shards.emplace_back(context.ledger, MemoryClass::parameter_shards, 4 * numel);
      for (std::size_t i = 0; i < specs.size(); ++i) {
        of[unit.parameters[i]] = {shards.back().tensor({numel}), layout.piece(i, context.rank)};
      }
    }
  }

  std::vector<Buffer> shards;  // of each unit
  std::map<const nn::Parameter*, Home> of;
  std::int64_t largest = 0;  // parameter, in elements
};

using Values = std::map<const nn::Parameter*, std::vector<float>>;  // of a whole model

inline Values whole_model(const std::vector<Draw>& plan, std::uint64_t seed) {
  Values values;
  Generator generator(seed);
  for (const Draw& draw : plan) {
    std::vector<float>& value = values[draw.parameter];
    value.resize(static_cast<std::size_t>(draw.numel()));
    nn::draw(generator, draw.parameter->init, value);
  }
  return values;
}

inline std::int64_t count_equal(std::span<const float> a, std::span<const float> b) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < a.size(); ++i) n += a[i] == b[i];
  return n;
}

inline std::int64_t count_different(const std::vector<nn::Parameter*>& parameters, const Values& a,
                                    const Values& b) {
  std::int64_t n = 0;
  for (const nn::Parameter* p : parameters) {
    n += p->shape.numel() - count_equal(a.at(p), b.at(p));
  }
  return n;
}

/// Gives parameters memory and values.
inline void fill(const std::vector<nn::Parameter*>& parameters, std::uint64_t seed,
                 std::vector<std::vector<float>>& memory) {
  Generator generator(seed);
  for (nn::Parameter* p : parameters) {
    std::vector<float>& values = memory.emplace_back(static_cast<std::size_t>(p->shape.numel()));
    nn::draw(generator, p->init, values);
    p->data = {values.data(), p->shape};
  }
}

/// Fully shards a model that has its values, on each rank from a seed of its own.
/// @return how many elements are rank 0's when they are gathered again, as rank 0 sees it
inline std::int64_t rank_0s_share(int W, bool sync) {
  std::int64_t equal = 0;
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    gpt::GPT model(nanogpt(52));
    const std::vector<nn::Parameter*> parameters = model.named_parameters();
    std::vector<std::vector<float>> memory;  // what it points to stays where it is
    fill(parameters, static_cast<std::uint64_t>(context.rank), memory);
    const std::vector<std::vector<float>> own = memory;
    comm::Mesh mesh(std::move(world));
    fsdp::ShardedModel sharded(context, model, mesh,
                               {.sync_module_states = sync, .wrap_policy = is_block});
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      if (context.rank != 0) return;
      const auto i = std::ranges::find(parameters, &p) - parameters.begin();
      equal += count_equal(p.data.span<float>(), own[static_cast<std::size_t>(i)]);
    });
  });
  return equal;
}

/// The random draws of a plan, from left to right; grey ones are overwritten by a later one.
/// @return those of the root unit: " lm_head 6656, wte 6656, wpe 8192"
inline std::string tell(const std::vector<Draw>& plan, Svg& svg, int y) {
  std::string text;
  int x = 20;
  for (auto draw = plan.begin(); draw != plan.end(); ++draw) {
    if (!draw->is_random()) continue;
    const bool root = draw->owner.starts_with("root");
    const bool stays = std::none_of(draw + 1, plan.end(), [&](const Draw& later) {
      return later.parameter == draw->parameter;
    });
    const std::string name = root ? draw->owner.substr(draw->owner.rfind('.') + 1) : "";
    const int width = root ? static_cast<int>(draw->numel() / 40) : 7;  // of blocks: not to scale
    const std::string_view fill = root ? colour::orange : colour::blue;
    svg.box(x, y, width, 34, stays ? fill : colour::grey, name);
    x += width;
    if (root) text += fmt::format("{} {} {}", text.empty() ? "" : ",", name, draw->numel());
  }
  return text;
}

}  // namespace lesson
