#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "frame/nanogpt.h"
#include "fsdp/fully_shard.h"
#include "fsdp/layout.h"

/// @file
/// @brief The parts of lesson 12 beside its idea: empty shards (lessons 07 and 08), and whole
/// models to compare with.

namespace lesson {

using namespace nanofsdp;

inline constexpr std::uint64_t kSeed = 1337;

/// One draw of a plan: a module fills one of its parameters.
struct Draw {
  std::string owner;  ///< path of the module
  nn::Parameter* parameter;
  std::int64_t numel() const { return parameter->shape.numel(); }
  bool is_random() const { return parameter->init.kind == nn::Init::Kind::normal; }
};

/// The empty shards of one rank, and the place in them of each parameter's piece.
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

  std::vector<Buffer> shards;  // one for each unit
  std::map<const nn::Parameter*, Home> of;
  std::int64_t largest = 0;  // elements of the largest parameter
};

using Values = std::map<const nn::Parameter*, std::vector<float>>;  // the values of a whole model

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

/// Shards a model that already has values; each rank has drawn them from its own seed.
/// @return how many elements of all shards are equal to rank 0's first values
inline std::int64_t rank_0s_share(int W, bool sync) {
  std::atomic<std::int64_t> equal = 0;
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    gpt::GPT model(nanogpt(52));
    const std::vector<nn::Parameter*> parameters = model.named_parameters();
    std::vector<std::vector<float>> of_rank_0, own;
    fill(parameters, 0, of_rank_0);
    fill(parameters, static_cast<std::uint64_t>(context.rank), own);
    comm::Mesh mesh(std::move(world));
    fsdp::ShardedModel sharded(context, model, mesh,
                               {.sync_module_states = sync, .wrap_policy = is_block});
    for (const fsdp::ShardedParameters* row : sharded.rows()) {
      for (std::size_t i = 0; i < row->parameters().size(); ++i) {
        const auto p = std::ranges::find(parameters, row->parameters()[i]) - parameters.begin();
        const auto [in_shard, in_parameter] = row->owned(i);
        const Tensor first(of_rank_0[static_cast<std::size_t>(p)].data(), parameters[p]->shape);
        equal +=
            count_equal(row->parameter_shard().slice(in_shard.begin, in_shard.size()).span<float>(),
                        first.slice(in_parameter.begin, in_parameter.size()).span<float>());
      }
    }
  });
  return equal;
}

}  // namespace lesson
