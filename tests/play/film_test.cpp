#include "engine/film.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "comm/local.h"
#include "engine/binding.h"
#include "support/usage_error.h"
#include "train/trainer.h"

// Tests the page's engine in a native build: its film shows the same work as a training.

namespace nanofsdp::play {
namespace {

using Json = nlohmann::json;

Json ask(Binding& binding, const Json& request) {
  return Json::parse(binding.answer(request.dump()));
}

Json film(const Json& settings) {
  Binding binding;
  Json answer = ask(binding, {{"do", "film"}, {"settings", settings}});
  EXPECT_FALSE(answer.contains("error")) << answer["error"];
  return answer;
}

const Json kSmall = {{"ranks", 2}, {"n_layer", 2}, {"n_embd", 16}};

Json with(Json settings, const Json& more) {
  settings.update(more);
  return settings;
}

TEST(Film, IsTheSameOfRealAndSimulatedRanks) {  // otherwise it would report an error
  for (const Json& more : std::vector<Json>{
           {{"ranks", 1}},
           {{"ranks", 3}, {"layout", "per_parameter"}},
           {{"ranks", 4}, {"strategy", "hybrid_shard"}, {"shard_size", 2}},
           {{"ranks", 4}, {"strategy", "hybrid_shard_optimizer"}, {"shard_size", 2}},
           {{"strategy", "no_shard"}, {"gradient_accumulation_steps", 4}},
           {{"strategy", "shard_optimizer"}, {"param_dtype", "bfloat16"}},
           {{"strategy", "shard_gradients"}, {"reduce_dtype", "bfloat16"}},
           {{"strategy", "shard_grad_op"}, {"no_sync", true}, {"gradient_accumulation_steps", 4}},
           {{"recompute", true}, {"backward_prefetch", "none"}, {"forward_prefetch", 0}},
           {{"pool", false}, {"backward_prefetch", "post"}, {"forward_prefetch", 2}}}) {
    SCOPED_TRACE(more.dump());
    const Json answer = film(with(kSmall, more));
    EXPECT_GT(answer["losses"][0], 3.5);  // ln 52 = 3.95
    EXPECT_GT(answer["ranks"][0]["events"].size(), 10u);
  }
}

TEST(Film, HasTheGoldenOrderAndTheTrafficOfAStep) {
  const Json answer = film(with(kSmall, {{"forward_prefetch", 0}}));
  std::string order;
  for (const Json& event : answer["ranks"][0]["events"]) {
    if (event[0] != "") order += event[0].get<std::string>() + " ";
  }
  const std::string h = "transformer.h.";
  EXPECT_EQ(order, "U.root U." + h + "0 F." + h + "0 R." + h + "0 U." + h + "1 F." + h + "1 R." +
                       h + "1 r.root u.root U." + h + "1 u." + h + "1 U." + h + "0 R." + h +
                       "1 RS." + h + "1 u." + h + "0 R." + h + "0 RS." + h + "0 R.root RS.root ");
  const Json traffic = answer["ranks"][0]["traffic"];
  EXPECT_EQ(traffic["all_gathers"], 5);  // 2U - 1
  EXPECT_EQ(traffic["reduce_scatters"], 3);
}

TEST(Film, FollowsOneNumberThroughTheStep) {
  const std::string name = "transformer.h.1.mlp.c_fc.weight";
  const Json settings = with(kSmall, {{"parameter", name}, {"element", 3}});
  const Json answer = film(settings);
  int owners = 0;
  Json whole;  // the same on every rank
  double sum = 0, reduced = 0;
  for (const Json& rank : answer["ranks"]) {
    const Json &life = rank["life"], &first = life.front(), &last = life.back();
    EXPECT_TRUE(first[1].is_null() && last[1].is_null()) << "whole at rest";
    Json gradient;  // the last gradient before the slot is given back
    for (const Json& row : life) {
      if (!row[1].is_null()) {
        if (whole.is_null()) whole = row[1];
        EXPECT_EQ(row[1], whole);
      }
      if (!row[3].is_null()) gradient = row[3];
    }
    sum += gradient.get<double>();
    if (last[2].is_null()) continue;
    ++owners;
    EXPECT_EQ(first[2], whole);
    EXPECT_NE(last[2], whole) << "Adam";
    EXPECT_NE(last[5], first[5]) << "first moment";
    reduced = last[4];
  }
  EXPECT_EQ(owners, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(reduced), static_cast<float>(sum));
  Binding binding;
  EXPECT_TRUE(ask(binding, {{"do", "film"}, {"settings", with(settings, {{"element", 9999}})}})
                  .contains("error"));
}

TEST(Film, TimesFollowTheSpeedOfTheLink) {
  const auto seconds = [](double link) -> double {
    return film(with(kSmall, {{"link", link}}))["ranks"][0]["seconds"];
  };
  EXPECT_LT(seconds(1e10), seconds(1e7) / 2);
}

TEST(Film, BeginsAndEndsWithWhatLasts) {
  const Json samples = film(kSmall)["ranks"][0]["samples"];
  EXPECT_EQ(samples.front().size(), 1 + kMemoryClasses.size());
  for (std::size_t c = 1; c <= kMemoryClasses.size(); ++c) {
    EXPECT_EQ(samples.front()[c], samples.back()[c]) << name_of(kMemoryClasses[c - 1]);
  }
  std::int64_t most = 0;  // the most bytes of activations
  for (const Json& sample : samples) most = std::max<std::int64_t>(most, sample[6]);
  EXPECT_GT(most, 10 * samples.front()[6].get<std::int64_t>());
}

TEST(Training, OfThePageIsTheTrainersToTheBit) {
  const Settings settings = parse_settings(R"({"ranks": 2, "n_layer": 2, "n_embd": 16})");
  const data::Dataset dataset(
      "To be, or not to be? To be and not to be, to be or not to be. To be.", "words", 4);
  Settings short_rows = settings;
  short_rows.options.block_size = 4;
  std::vector<double> expected(3);
  comm::launch_threads(2, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    train::Trainer trainer(context, std::move(world), short_rows.options, dataset);
    for (std::int64_t i = 0; i < 3; ++i) {
      const double loss = trainer.step(i).loss;
      if (context.rank == 0) expected[static_cast<std::size_t>(i)] = loss;
    }
  });
  Session session(short_rows, dataset);
  for (const double loss : expected) {
    session.on_every_rank([](Player& p) { p.step(); });
    EXPECT_EQ(session.player(0).last.loss, loss);
  }
}

TEST(Training, HasTheSameWeightsWhateverTheStrategy) {
  std::set<std::string> hashes;
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_gradients", "shard_grad_op", "full_shard"}) {
    Binding binding;
    ask(binding, {{"do", "train"}, {"settings", with(kSmall, {{"strategy", strategy}})}});
    ask(binding, {{"do", "steps"}, {"n", 3}});
    const Json answer = ask(binding, {{"do", "weights"}});
    for (const Json& hash : answer["weights"]) hashes.insert(hash);
  }
  EXPECT_EQ(hashes.size(), 1u);
}

TEST(Binding, AnswersErrorsAndGoesOn) {
  Binding binding;
  const auto error = [&](const Json& request) -> std::string {
    return ask(binding, request).value("error", "");
  };
  EXPECT_NE(error({{"do", "film"}, {"settings", {{"ranks", 9}}}}).find("ranks"), std::string::npos);
  EXPECT_NE(error({{"do", "film"}, {"settings", {{"tea", 1}}}}).find("tea"), std::string::npos);
  EXPECT_NE(error({{"do", "film"}, {"settings", {{"ranks", 8}, {"batch_size", 1}}}}), "");
  EXPECT_NE(error({{"do", "steps"}, {"n", 1}}), "");
  EXPECT_NE(error({{"do", "brew"}}), "");
  EXPECT_EQ(error({{"do", "train"}, {"settings", kSmall}}), "");
  EXPECT_EQ(ask(binding, {{"do", "sample"}, {"length", 5}})["text"].get<std::string>().size(), 5u);
}

}  // namespace
}  // namespace nanofsdp::play
