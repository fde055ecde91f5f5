#include "engine/film.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/session.h"
#include "plan/clock.h"
#include "plan/plan.h"
#include "plan/simulated.h"

namespace nanofsdp::play {
namespace {

using Json = nlohmann::json;

std::int64_t batch_bytes(const Settings& settings) {
  constexpr std::int64_t kToken = 2 * sizeof(std::int32_t);  // an input and a target
  return settings.options.batch_size * settings.options.block_size * kToken;
}

// The same rank on a simulated device. Its log and its film are those of the second step.
struct Simulated {
  Simulated(int rank, const Settings& settings, const data::Dataset& dataset)
      : context(rank, settings.ranks, 1, Device::simulated_cpu),
        recorder(context),
        trainer(context, plan::make_simulated_mesh(context, settings.options.shard_size),
                settings.options, dataset) {
    trainer.step(0);
    const std::size_t first = context.issued.size();
    recorder.start(trainer.tape(), batch_bytes(settings));
    trainer.step(1);
    recorder.stop();
    played = plan::play(context.issued, machine_of(settings), {settings.ranks, 1}, first);
  }

  plan::SimulatedRank context;
  Recorder recorder;
  train::Trainer trainer;
  plan::Played played;
};

void require_agreement(int rank, const Recorder& real, const Recorder& simulated) {
  const auto& a = real.happenings();
  const auto& b = simulated.happenings();
  NANOFSDP_CHECK(a == b, .what = fmt::format("events of rank {}", rank),
                 .expected = fmt::format("those of the simulated rank, {}", b.size()),
                 .got = fmt::format("{}", a.size()));
  const auto& before = real.samples();
  const auto& after = simulated.samples();
  const auto differ = std::mismatch(before.begin(), before.end(), after.begin(), after.end());
  NANOFSDP_CHECK(before == after, .what = fmt::format("memory of rank {}", rank),
                 .expected = "as of the simulated rank",
                 .got = fmt::format("another from moment {} of {} on",
                                    differ.first - before.begin(), before.size()));
}

Json traffic_of(const comm::Traffic& t) {
  return {{"all_gathers", t.all_gathers},       {"reduce_scatters", t.reduce_scatters},
          {"all_reduces", t.all_reduces},       {"bytes_sent", t.bytes_sent},
          {"bytes_received", t.bytes_received}, {"control", t.control}};
}

Json ledger_of(const Ledger& ledger) {
  Json all = Json::array();
  for (const MemoryClass c : kMemoryClasses) {
    const MemoryCount n = ledger.count(c);
    all.push_back({n.reserved, n.reserved_peak, n.in_use, n.in_use_peak});
  }
  return all;
}

// For each moment: the whole parameter, its shard, the gradient, its shard, and the moments of
// Adam. A value that does not exist is null.
Json life_of(const Recorder& recorder) {
  Json life = Json::array();
  for (const Sighting& sighting : recorder.life()) {
    Json row = {sighting.sample};
    for (const auto& value : sighting.values) row.push_back(value ? Json(*value) : Json());
    life.push_back(std::move(row));
  }
  return life;
}

// Times count from the beginning of the step.
Json rank_of(Player& player, const comm::Traffic& traffic, const Simulated& simulated) {
  const auto& samples = simulated.recorder.samples();
  const double begin = samples.front().at;
  Json film_samples = Json::array(), events = Json::array();
  for (const Sample& sample : samples) {
    Json row = {sample.at - begin};
    for (const std::int64_t bytes : sample.memory) row.push_back(bytes);
    film_samples.push_back(std::move(row));
  }
  for (const Happening& h : simulated.recorder.happenings()) {
    events.push_back({h.event, h.span, h.sample});
  }
  return {{"samples", film_samples},
          {"events", events},
          {"spans", spans_of(simulated.context.tracer.spans(), begin)},
          {"seconds", simulated.played.seconds},
          {"busy", simulated.played.busy},
          {"exposed", simulated.played.exposed},
          {"traffic", traffic_of(traffic)},
          {"ledger", ledger_of(player.context.ledger)},
          {"total_peak", player.context.ledger.total_peak()},
          {"life", life_of(player.recorder)}};
}

Json parameters_of(fsdp::ShardedModel& model) {
  Json all = Json::array();
  for (const fsdp::ShardedParameters* row : model.rows()) {
    for (const nn::Parameter* p : row->parameters()) all.push_back({p->name, p->shape.numel()});
  }
  return all;
}

Json units_of(fsdp::ShardedModel& model) {
  Json units = Json::array();
  for (const fsdp::Unit& unit : model.units()) {
    std::int64_t shard = 0;
    for (const auto& row : unit.rows()) shard += row.layout().shard_numel();
    units.push_back({{"name", unit.name()}, {"numel", unit.numel()}, {"shard", shard}});
  }
  return units;
}

}  // namespace

nlohmann::json spans_of(const std::deque<Span>& spans, double begin) {
  Json all = Json::array();
  for (const Span& s : spans) {
    all.push_back(
        {static_cast<int>(s.lane), s.name, s.bytes, s.begin - begin, s.end - begin, s.waits_for});
  }
  return all;
}

nlohmann::json film_one_step(const Settings& settings, const data::Dataset& dataset) {
  Session session(settings, dataset);
  std::vector<comm::Traffic> traffic(static_cast<std::size_t>(settings.ranks));
  session.on_every_rank([](Player& p) { p.step(); });
  const double first_loss = session.player(0).last.loss;
  session.on_every_rank([&](Player& p) {
    train::Trainer& trainer = p.trainer;
    trainer.mesh().reset_traffic();
    std::optional<Probe> probe;
    if (!settings.parameter.empty()) {
      p.recorder.follow(probe.emplace(trainer.model().units(), trainer.optimizer(),
                                      settings.parameter, settings.element));
    }
    p.recorder.start(trainer.tape(), batch_bytes(settings));
    p.step();
    p.recorder.stop();
    traffic[static_cast<std::size_t>(p.context.rank)] = trainer.mesh().traffic();
  });
  Json ranks = Json::array();
  for (int rank = 0; rank < settings.ranks; ++rank) {
    const Simulated simulated(rank, settings, dataset);
    Player& player = session.player(rank);
    require_agreement(rank, player.recorder, simulated.recorder);
    ranks.push_back(rank_of(player, traffic[static_cast<std::size_t>(rank)], simulated));
  }
  Player& player = session.player(0);
  Json film = {{"ranks", ranks},
               {"units", units_of(player.trainer.model())},
               {"parameters", parameters_of(player.trainer.model())},
               {"losses", {first_loss, player.last.loss}},
               {"grad_norm", player.last.grad_norm}};
  std::vector<std::uint64_t> hashes(traffic.size());
  session.on_every_rank([&](Player& p) {
    hashes[static_cast<std::size_t>(p.context.rank)] = p.fingerprint_of_weights();
  });
  film["weights"] = Json::array();
  for (const std::uint64_t hash : hashes) film["weights"].push_back(fmt::format("{:016x}", hash));
  return film;
}

}  // namespace nanofsdp::play
