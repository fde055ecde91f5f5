#include "engine/binding.h"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "data/tales.h"
#include "engine/film.h"
#include "engine/scale.h"
#include "plan/plan.h"

namespace nanofsdp::play {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kBytesOfTales = 300'000;  // the text is generated while the page opens

Settings settings_in(const Json& request) {
  return parse_settings(request.value("settings", Json::object()).dump());
}

Json begun(Session& session) {
  std::int64_t parameters = 0;
  for (const fsdp::Unit& unit : session.player(0).trainer.model().units()) {
    parameters += unit.numel();
  }
  return {{"parameters", parameters}};
}

Json train(Session& session, int steps) {
  Json losses = Json::array();
  for (int i = 0; i < steps; ++i) {
    session.on_every_rank([](Player& p) { p.step(); });
    losses.push_back(session.player(0).last.loss);
  }
  return {{"losses", losses}, {"steps", session.player(0).steps}};
}

Json weights(Session& session) {
  std::vector<std::string> hashes(static_cast<std::size_t>(session.settings().ranks));
  session.on_every_rank([&](Player& p) {
    hashes[static_cast<std::size_t>(p.context.rank)] =
        fmt::format("{:016x}", p.fingerprint_of_weights());
  });
  return {{"weights", hashes}};
}

Json sample(Session& session, std::int64_t length) {
  std::string text;
  session.on_every_rank([&](Player& p) {
    std::string mine = p.trainer.sample(length);
    if (p.context.rank == 0) text = std::move(mine);
  });
  return {{"text", text}};
}

}  // namespace

Binding::Binding() : text_(data::expand_tales(kTalesGrammar, kBytesOfTales)) {}

const data::Dataset& Binding::tales(std::int64_t block_size) {
  if (!dataset_ || dataset_->block_size() != block_size) {
    session_.reset();  // the old session reads the old data
    dataset_.emplace(text_, "tales", block_size);
  }
  return *dataset_;
}

std::string Binding::answer(std::string_view text) {
  try {
    const Json request = Json::parse(text);
    const std::string verb = request.at("do");
    if (verb == "film" || verb == "train") {
      const Settings settings = settings_in(request);
      const data::Dataset& dataset = tales(settings.options.block_size);
      if (verb == "film") return film_one_step(settings, dataset).dump();
      session_.reset();
      session_ = std::make_unique<Session>(settings, dataset);
      return begun(*session_).dump();
    }
    if (verb == "plan") return plan_run(request.at("args")).dump();
    if (verb == "explain") return Json({{"text", explain_run(request.at("args"))}}).dump();
    if (session_ == nullptr) {
      throw UsageError({.what = "request " + verb, .expected = "a training that has begun"});
    }
    if (verb == "steps") return train(*session_, request.at("n")).dump();
    if (verb == "weights") return weights(*session_).dump();
    if (verb == "sample") return sample(*session_, request.at("length")).dump();
    throw UsageError({.what = "request",
                      .expected = "film, train, steps, weights, sample, plan or explain",
                      .got = verb});
  } catch (const std::exception& error) {
    if (session_ != nullptr && !session_->alive()) session_.reset();
    return Json({{"error", error.what()}}).dump();
  }
}

}  // namespace nanofsdp::play
