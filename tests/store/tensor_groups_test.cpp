#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/adamw.h"
#include "store/checkpoint.h"
#include "store/slices.h"
#include "store/weights.h"
#include "store/weights_files.h"
#include "support/errors.h"
#include "support/layouts.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "support/usage_error.h"

// Files of models that are divided over tensor groups: any mesh loads what any mesh has saved, and
// files have whole parameters. Every element of a parameter and of its moments has a value that
// depends on its place in the whole.

namespace nanofsdp::store::tensor_groups_test {
namespace {

using namespace nanofsdp::testing;

// A parameter of the whole model, and how tensor groups divide it; `dim` is -1 if they do not.
struct Whole {
  Shape shape;
  int dim;
  int groups;
};

// ranks = replicas x shards x tensor.
struct Grid {
  int ranks, tensor, shards;
  fsdp::ShardingStrategy strategy;
  fsdp::LayoutKind layout;
};

struct Model final : nn::Module {
  Model(const std::vector<Whole>& wholes, comm::Communicator& group) {
    for (std::size_t i = 0; i < wholes.size(); ++i) {
      const auto& [shape, dim, groups] = wholes[i];
      Shape mine = shape;
      nn::Part part;
      if (dim >= 0) {
        mine = shape.with(dim, shape[dim] / group.size());
        part = {dim, group.rank(), group.size(), groups};
      }
      auto parameter = std::make_shared<nn::Parameter>(mine, nn::Init::zeros());
      parameter->part = part;
      parameter->requires_grad = i % 4 != 3;
      add("p" + std::to_string(i), parameter);
    }
  }
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override { return dy; }
};

// The place of element `e` of a part in the whole, from its index in each dimension.
std::int64_t place_in_whole(const nn::Parameter& p, std::int64_t e) {
  std::int64_t place = 0, stride = 1;
  for (int d = p.shape.rank(); d-- > 0; e /= p.shape[d]) {
    std::int64_t index = e % p.shape[d], size = p.shape[d];
    if (d == p.part.dim) {
      const std::int64_t of_group = size / p.part.groups;
      index = (index / of_group * p.part.ranks + p.part.rank) * of_group + index % of_group;
      size *= p.part.ranks;
    }
    place += index * stride;
    stride *= size;
  }
  return place;
}

// The value of a place in parameter `p` (state 0) or in one of its moments.
float value_at(const std::string& p, std::size_t state, std::int64_t place) {
  return static_cast<float>(1000 * std::stoi(p.substr(1)) + place) +
         0.25F * static_cast<float>(state);
}

// A model on a grid, with the values of value_at() or with none.
struct Rank {
  Rank(Context& context, std::unique_ptr<comm::Communicator> world, const Grid& grid,
       const std::vector<Whole>& wholes)
      : mesh(std::move(world), grid.shards, /*post_forward_size=*/0, grid.tensor),
        model(wholes, mesh.tensor()),
        sharded(context, model, mesh, {.strategy = grid.strategy, .layout = grid.layout}),
        optimizer(context, sharded.units(), {}) {
    for (fsdp::ShardedParameters* row : sharded.rows()) {
      for (std::size_t i = 0; i < row->parameters().size(); ++i)
        row->store(i, std::vector<float>(row->parameters()[i]->shape.numel(), -1));
    }
  }

  const nn::Parameter& named(const std::string& name) {
    const std::vector<nn::Parameter*> all = model.named_parameters();
    return **std::ranges::find(all, name, &nn::Parameter::name);
  }

  // Calls visit(value, expected) for every element that this rank loads, and for its steps.
  template <class Visit>
  void for_each(const Visit& visit) {
    for (const StateSlice& slice : slices_of(sharded.units(), optimizer, Slices::to_load)) {
      const nn::Parameter& p = named(slice.parameter.name);
      for (std::size_t state = 0; state < slice.tensors.size(); ++state) {
        for (std::int64_t e = 0; e < slice.range.size(); ++e) {
          visit(slice.tensors[state].second.f32()[e],
                value_at(p.name, state, place_in_whole(p, slice.range.begin + e)));
        }
      }
      if (slice.steps != nullptr)
        visit(*slice.steps, std::int64_t{3} + std::stoi(p.name.substr(1)));
    }
  }
  void fill() {
    for_each([](auto& value, auto expected) { value = expected; });
    finish_loading(sharded.units(), optimizer, 9);
  }
  void expect_filled(const std::string& where) {
    int wrong = 0;
    for_each([&](auto& value, auto expected) { wrong += value != expected; });
    EXPECT_EQ(wrong, 0) << where;
  }
  // All weights, whole on every rank of the shard group.
  void expect_weights(const std::string& where) {
    int wrong = 0;
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      for (std::int64_t e = 0; e < p.shape.numel(); ++e)
        wrong += p.data.f32()[e] != value_at(p.name, 0, place_in_whole(p, e));
    });
    EXPECT_EQ(wrong, 0) << where;
  }

  comm::Mesh mesh;
  Model model;
  fsdp::ShardedModel sharded;
  fsdp::AdamW optimizer;
};

template <class Body>
void on(const Grid& grid, const std::vector<Whole>& wholes, const Body& body) {
  run_ranks(Backend::local, grid.ranks, [&](Context& context, auto world) {
    Rank rank(context, std::move(world), grid, wholes);
    body(rank);
  });
}

std::string name_of(const Grid& g) {
  return fmt::format("{} ranks, {} tensor, {} shards, {}, {}", g.ranks, g.tensor, g.shards,
                     fsdp::name_of(g.strategy), testing::name_of(g.layout));
}

// The model has each way to divide a parameter, and sizes that shards and blocks cut unevenly.
TEST(TensorGroupFiles, GoFromAnyMeshToAnyOther) {
  using enum fsdp::ShardingStrategy;
  std::mt19937 random(5);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<Whole> wholes = {{{12, draw(1, 7)}, 0, 1},
                                 {{draw(1, 7), 12}, 1, 1},
                                 {{36, draw(1, 5)}, 0, 3},
                                 {{draw(1, 9), draw(1, 9)}, -1, 1}};
    for (int more = draw(0, 4); more > 0; --more) {
      const int dim = draw(-1, 2);
      Shape shape{draw(1, 3), draw(1, 3), draw(1, 3)};
      if (dim >= 0) shape = shape.with(dim, 24);
      wholes.push_back({shape, dim, dim >= 0 ? draw(1, 2) : 1});
    }
    wholes.push_back({{24}, 0, 2});
    const auto grid = [&] {
      const int tensor = draw(1, 4), shards = draw(1, 3);
      const int replicas = draw(1, 6) > 5 ? 2 : 1;
      const auto plain =
          std::array{no_shard, shard_optimizer, shard_gradients, shard_grad_op, full_shard};
      const auto strategy = replicas == 1     ? plain[draw(0, 4)]
                            : draw(0, 1) == 0 ? hybrid_shard
                                              : hybrid_shard_optimizer;
      const int ranks = replicas * shards * tensor;
      return Grid{ranks, tensor, replicas == 1 ? 0 : shards, strategy,
                  static_cast<fsdp::LayoutKind>(draw(0, 2))};
    };
    const Grid from = grid(), to = grid();
    const std::string where = fmt::format("trial {}: {} to {}", trial, name_of(from), name_of(to));
    const TemporaryDirectory directory;
    const std::string o = directory.file("o"), s = directory.file("s");
    on(from, wholes, [&](Rank& rank) {
      rank.fill();
      save_checkpoint(o, rank.sharded, rank.optimizer);
      save_weights(o, rank.sharded, {});
      save_sharded_weights(s, rank.sharded, {});
    });
    for (const std::string& files : {o, s}) {
      const WeightsFiles read(files);
      ASSERT_EQ(read.tensors().size(), wholes.size());
      for (const TensorInfo& tensor : read.tensors()) {
        const auto dims = wholes[std::stoi(tensor.name.substr(1))].shape.dims();
        EXPECT_TRUE(std::ranges::equal(tensor.shape, dims)) << where;
        const std::vector<float> values = read.read(tensor);
        for (std::size_t e = 0; e < values.size(); ++e)
          ASSERT_EQ(values[e], value_at(tensor.name, 0, e)) << where << tensor.name << e;
      }
    }
    on(to, wholes, [&](Rank& rank) {
      load_checkpoint(o, rank.sharded, rank.optimizer);
      rank.expect_filled(where);
      EXPECT_EQ(rank.optimizer.steps(), 9);
    });
    for (const std::string& files : {o, s}) {
      on(to, wholes, [&](Rank& rank) {
        load_weights(files, rank.sharded);
        rank.expect_weights(where);
      });
    }
  }
}

// Each file of a checkpoint is written by one rank, and has nothing that another one has.
TEST(TensorGroupFiles, HaveEveryElementOnce) {
  const std::vector<Whole> wholes = {{{4, 6}, 1, 1}, {{6, 5}, 0, 3}, {{7}, -1, 1}};
  const TemporaryDirectory directory;
  on({4, 2, 0, fsdp::ShardingStrategy::full_shard, fsdp::LayoutKind::flat}, wholes,
     [&](Rank& rank) { save_checkpoint(directory.file("o"), rank.sharded, rank.optimizer); });
  std::int64_t elements = 0;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const SafetensorsFile file(directory.file("o/checkpoint/" + rank_file_name(rank, 4)));
    for (const TensorInfo& tensor : file.tensors()) elements += tensor.numel();
  }
  EXPECT_EQ(elements, 3 * (24 + 30 + 7));
}

// If one rank cannot write, the save fails on all ranks of all groups.
TEST(TensorGroupFiles, FailOnAllRanks) {
  const TemporaryDirectory directory;
  directory.write("file", "");
  std::atomic<int> failed = 0;
  on({4, 2, 0, fsdp::ShardingStrategy::full_shard, fsdp::LayoutKind::flat}, {{{4, 6}, 1, 1}},
     [&](Rank& rank) {
       for (const char* o : {"file/o", "file/o/deep"}) {
         const std::string out = directory.file(o);
         failed += usage_error([&] { save_weights(out, rank.sharded, {}); }) != "no error";
       }
       const std::string o = directory.file("file");
       failed +=
           usage_error([&] { save_checkpoint(o, rank.sharded, rank.optimizer); }) != "no error";
     });
  EXPECT_EQ(failed, 3 * 4);
}

// A parameter that cannot be such a part, or is that of another rank, is named, on every rank.
TEST(TensorGroupFiles, RefusePartsThatAreNone) {
  struct Case {
    nn::Part part;
    const char* why;
  };
  for (const Case& c : {Case{{.dim = 0, .rank = 0, .ranks = 2}, "got part 0 of 2"},
                        Case{{.dim = 2, .rank = 1, .ranks = 2}, "dimension 2 of [4, 3]"},
                        Case{{.dim = -1, .rank = 1, .ranks = 2}, "dimension -1"},
                        Case{{.dim = 1, .rank = 1, .ranks = 2, .groups = 2}, "in 2 groups"}}) {
    run_ranks(Backend::local, 2, [&](Context& context, auto world) {
      comm::Mesh mesh(std::move(world), 0, 0, /*tensor_size=*/2);
      Model model({{{4, 3}, -1, 1}}, mesh.tensor());
      nn::Part part = c.part;
      if (part.ranks == 2 && part.rank == 1) part.rank = mesh.tensor().rank();
      if (mesh.tensor().rank() == 1) model.own_parameters()[0].second->part = part;
      const TemporaryDirectory directory;
      fsdp::ShardedModel sharded(context, model, mesh, {});
      if (mesh.tensor().rank() == 0) return;
      expect_error<Error>([&] { save_weights(directory.file("o"), sharded, {}); }, c.why);
      expect_error<Error>([&] { save_weights(directory.file("o"), sharded, {}); }, "p0");
    });
  }
}

}  // namespace
}  // namespace nanofsdp::store::tensor_groups_test
