#include "bench/planned.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "comm/local.h"
#include "train/trainer.h"

// The plan of a training has the memory and traffic of its trainer: every count of every class,
// with the first weights and the batches. They are equal to the byte, on each rank.

namespace nanofsdp::bench::planned_test {
namespace {

using enum fsdp::ShardingStrategy;

struct Training : train::TrainerOptions, comm::RanksOptions {};

Training small(fsdp::ShardingStrategy strategy, int ranks, int micro_steps) {
  Training o;
  o.strategy = strategy;
  o.ranks = ranks;
  o.gradient_accumulation_steps = micro_steps;
  o.backend = comm::Backend::local;
  o.batch_size = 5;
  o.block_size = 8;
  o.n_layer = 3;
  o.n_head = 2;
  o.n_embd = 12;
  o.bias = true;
  return o;
}

std::vector<Training> trainings() {
  std::vector<Training> all{small(no_shard, 1, 2),        small(no_shard, 3, 2),
                            small(shard_optimizer, 4, 3), small(shard_gradients, 2, 1),
                            small(shard_grad_op, 3, 1),   small(full_shard, 5, 2),
                            small(full_shard, 4, 8),      small(hybrid_shard, 4, 2),
                            small(shard_optimizer, 3, 2), small(full_shard, 3, 2)};
  all.push_back(small(hybrid_shard_optimizer, 4, 2));
  all.back().shard_size = 2;
  using gpt::Recompute;
  all[1].recompute = Recompute::block;
  all[2].no_sync = true, all[2].forward_prefetch = 3;
  all[3].precision = {DType::bfloat16, DType::bfloat16};
  all[4].dropout = 0.2;
  all[5].precision.param_dtype = DType::bfloat16, all[5].recompute = Recompute::selective;
  all[6].backward_prefetch = fsdp::BackwardPrefetch::post,
  all[6].init_order = train::InitOrder::fsdp;
  all[7].shard_size = 2;
  all[8].layout = all[9].layout = fsdp::LayoutKind::per_parameter;
  return all;
}

// Four ranks run on two machines. Each shard group of two lies on one machine, and each replicate
// group on both.
TEST(Planned, KeepsScratchForGroupsThatDoNotShareMemory) {
  Training o = small(hybrid_shard, 4, 4);
  o.backend = comm::Backend::gloo;
  o.shard_size = 2;
  const auto model = planned_gpt(train::config_of(o, 11), gpt::Recompute::none);
  const auto communication = [&](int sharers, int rank) {
    return plan::plan(*model, planned_run(o, o, rank, 1, Device::simulated_cpu, sharers))
        .of(MemoryClass::communication);
  };
  plan::Run run = planned_run(o, o, 0, 1, Device::simulated_cpu, 4);
  const std::vector<std::int64_t> units = plan::plan(*model, run).units;
  const std::int64_t shard =  // bytes of the largest shard
      4 * fsdp::round_up((std::ranges::max(units) + 1) / 2, run.options.alignment);
  for (int rank = 0; rank < 4; ++rank) {
    const std::int64_t none = communication(4, rank);
    EXPECT_EQ(communication(2, rank) - none, shard / 2) << rank;  // memory of the replicate group
    EXPECT_EQ(communication(1, rank) - none, shard / 2 + shard) << rank;
  }
  // With machines of three ranks, ranks 2 and 3 are a shard group on two machines, and ranks 0 and
  // 2 share memory.
  EXPECT_EQ(communication(3, 0), communication(4, 0));
  EXPECT_EQ(communication(3, 2) - communication(4, 2), shard);
  EXPECT_EQ(communication(3, 3), communication(1, 3));
}

// Each group of hybrid_shard has its own scratch: the shard group sums chunks of a shard, and two
// replicas sum chunks of half a shard.
TEST(Planned, KeepsScratchForOrderedReductionsOverNccl) {
  Training o = small(hybrid_shard, 4, 4);
  o.shard_size = 2;
  const auto model = planned_gpt(train::config_of(o, 11), gpt::Recompute::none);
  const auto planned = [&](comm::Backend backend, comm::Reduction reduction) {
    o.backend = backend;
    o.RanksOptions::reduction = reduction;
    return plan::plan(*model, planned_run(o, o, 1, 1, Device::simulated_cuda, 4));
  };
  const plan::Plan local = planned(comm::Backend::local, comm::Reduction::ordered);
  const plan::Plan ring = planned(comm::Backend::nccl, comm::Reduction::ring);
  const plan::Plan ordered = planned(comm::Backend::nccl, comm::Reduction::ordered);
  const std::int64_t shard =  // bytes of the largest shard
      4 * fsdp::round_up((std::ranges::max(local.units) + 1) / 2, train::fsdp_options(o).alignment);
  const std::int64_t without = local.of(MemoryClass::communication);
  EXPECT_EQ(ring.of(MemoryClass::communication), without);
  EXPECT_EQ(ordered.of(MemoryClass::communication) - without, shard + shard / 2);
  EXPECT_EQ(ordered.step, local.step) << "traffic";
}

TEST(Planned, IsWhatATrainerHoldsAndSends) {
  std::string text;
  for (int i = 0; text.size() < 900; ++i) text += std::to_string(i) + " ";
  for (const Training& o : trainings()) {
    const data::Dataset dataset(text, "digits", o.block_size);
    comm::launch_threads(o.ranks, 1, [&](Context& context, auto world) {
      train::Trainer trainer(context, std::move(world), o, dataset);
      trainer.evaluate();
      trainer.step(0);
      trainer.mesh().reset_traffic();
      trainer.step(1);
      const auto model =
          planned_gpt(train::config_of(o, dataset.tokenizer().vocab_size()), o.recompute);
      const plan::Plan planned =
          plan::plan(*model, planned_run(o, o, context.rank, 1, Device::simulated_cpu, o.ranks));
      for (const MemoryClass c : kMemoryClasses) {
        const MemoryCount want = context.ledger.count(c);
        const MemoryCount got = planned.memory[static_cast<std::size_t>(c)];
        const auto at = ::testing::Message() << name_of(c) << ", " << fsdp::name_of(o.strategy)
                                             << ", rank " << context.rank << " of " << o.ranks;
        EXPECT_EQ(got.reserved, want.reserved) << at;
        EXPECT_EQ(got.reserved_peak, want.reserved_peak) << at;
        EXPECT_EQ(got.in_use, want.in_use) << at;
        EXPECT_EQ(got.in_use_peak, want.in_use_peak) << at;
      }
      EXPECT_EQ(planned.total_peak, context.ledger.total_peak()) << fsdp::name_of(o.strategy);
      comm::Traffic sent = trainer.mesh().traffic();
      if (o.ranks > 1) sent.control -= 1;  // the loss, which a plan does not include
      EXPECT_EQ(planned.step, sent) << fsdp::name_of(o.strategy);
      EXPECT_EQ(planned.bytes_across, trainer.mesh().traffic_across().bytes_sent);
    });
  }
}

}  // namespace
}  // namespace nanofsdp::bench::planned_test
