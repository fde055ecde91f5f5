#include <gtest/gtest.h>

#include "22_your_own_model/float64.h"
#include "llama/plain.h"

// The library does not know this model. The library's promises for any model must hold for it.

namespace lesson {
namespace {

using nanofsdp::fsdp::ShardingStrategy;

// The bits are equal. hybrid_shard has one group here, with all ranks.
TEST(Llama, ShardedIsThePlainSumOverRanks) {
  for (const bool lora : {false, true}) {
    const Task task = tiny_task(lora);
    const Values start = tiny_values(*make_model(task));
    const lesson::Run plain = Plain(3, task, start).run();
    ASSERT_NE(plain.values, start);
    for (const fsdp::Sharding& sharding : fsdp::kShardings) {
      const auto strategy = static_cast<ShardingStrategy>(&sharding - fsdp::kShardings.data());
      const lesson::Run run = train(3, task, start, {.strategy = strategy, .poison = true});
      EXPECT_EQ(run.losses, plain.losses) << sharding.name;
      EXPECT_EQ(run.values, plain.values) << sharding.name;
    }
  }
}

// A frozen base needs no gradient and no moment, and does not change by a bit.
TEST(Llama, UnderLoraPaysForAdaptersOnly) {
  const Task task = tiny_task(/*lora=*/true);
  const Values start = tiny_values(*make_model(task));
  lesson::Run run = train(4, task, start, {.alignment = 1});
  std::int64_t adapters = 0;
  for (const auto& [name, values] : start) {
    const bool frozen = name.find(".lora_") == std::string::npos;
    EXPECT_EQ(run.values.at(name) == values, frozen) << name;
    if (!frozen) adapters += std::ssize(values);
  }
  ASSERT_EQ(adapters % 4, 0);
  EXPECT_EQ(run.bytes[MemoryClass::gradient_shards], 4 * adapters / 4);
  EXPECT_EQ(run.bytes[MemoryClass::optimizer], 8 * adapters / 4);
}

}  // namespace
}  // namespace lesson
