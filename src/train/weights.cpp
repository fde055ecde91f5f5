#include "train/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/transfer.h"
#include "train/bpe_tokenizer.h"
#include "train/safetensors.h"

namespace nanofsdp::gpt {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GPTConfig, block_size, vocab_size, n_layer, n_head, n_embd,
                                   dropout, bias)
}  // namespace nanofsdp::gpt

namespace nanofsdp::train {
namespace {

using nlohmann::json;

constexpr const char* kKey = "nanofsdp";

std::vector<std::int64_t> dims_of(const nn::Parameter& parameter) {
  const auto dims = parameter.shape.dims();
  return {dims.begin(), dims.end()};
}

std::string to_text(const WeightsInfo& info) {
  json j = info.config;
  j["chars"] = info.chars;
  j["iter_num"] = info.iteration;
  j["val_loss"] = info.val_loss;
  if (!info.pieces.empty()) j["pieces"] = info.pieces;
  j["tied"]["lm_head.weight"] = "transformer.wte.weight";
  return j.dump();
}

WeightsInfo from_text(const std::string& text) {
  const json j = json::parse(text);
  return {.config = j,
          .chars = j.at("chars"),
          .iteration = j.at("iter_num"),
          .val_loss = j.at("val_loss").is_null() ? std::nan("") : j.at("val_loss").get<double>(),
          .pieces = j.value("pieces", std::vector<std::string>())};
}

// Whether the description is of these tensors: it could say anything, and is believed if it is.
bool describes(const WeightsInfo& info, const std::vector<TensorInfo>& tensors) {
  constexpr std::int64_t kMost = 1'000'000;  // as for options: products of three do not overflow
  const gpt::GPTConfig& c = info.config;
  const auto sizes = {c.block_size, c.vocab_size, c.n_layer, c.n_head, c.n_embd};
  if (std::max(sizes) > kMost || std::ssize(tensors) < c.n_layer ||
      make_tokenizer(info)->vocab_size() != c.vocab_size) {
    return false;
  }
  return std::ranges::all_of(gpt::GPT(c).named_parameters(), [&](const nn::Parameter* parameter) {
    return std::ranges::count(tensors, TensorInfo{parameter->name, dims_of(*parameter)}) == 1;
  });
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const WeightsInfo& info) {
  if (!info.chars.empty()) return std::make_shared<CharTokenizer>(info.chars);
  return std::make_shared<BpeTokenizer>(info.config.vocab_size, info.pieces);
}

std::filesystem::path weights_path(const std::string& out_dir) {
  return std::filesystem::path(out_dir) / "model.safetensors";
}

void save_weights(const std::string& out_dir, fsdp::ShardedModel& model, const WeightsInfo& info,
                  int rank) {
  std::optional<SafetensorsWriter> writer;
  if (rank == 0) {
    std::vector<TensorInfo> tensors;
    for (const fsdp::Unit& unit : model.units()) {
      for (const nn::Parameter* parameter : unit.flat().parameters()) {
        tensors.push_back({parameter->name, dims_of(*parameter)});
      }
    }
    writer.emplace(weights_path(out_dir).string(), std::move(tensors),
                   Metadata{{"format", "pt"}, {kKey, to_text(info)}});
  }
  std::vector<float> room;
  model.summon_full_parameters([&](const nn::Parameter& parameter) {
    const auto whole = on_host<float>(model.stream(), parameter.data, room);
    if (writer) writer->append(whole);
  });
  if (writer) writer->finish();
}

WeightsInfo read_weights_info(const std::string& out_dir) {
  const std::string path = weights_path(out_dir).string();
  const SafetensorsFile file(path);
  const auto found = file.metadata().find(kKey);
  std::string got = "no description of the model in its metadata";
  try {
    if (found != file.metadata().end()) {
      const WeightsInfo info = from_text(found->second);
      if (describes(info, file.tensors())) return info;
      got = "other tensors than of its description " + json(info.config).dump();
    }
  } catch (const std::exception& error) {
    got = error.what();
  }
  throw UsageError({.what = "weights '" + path + "'",
                    .expected = "a model saved by `nanofsdp train --out_dir=...`",
                    .got = got});
}

void load_weights(const std::string& out_dir, fsdp::ShardedModel& model) {
  SafetensorsFile file(weights_path(out_dir).string());
  for (fsdp::Unit& unit : model.units()) {
    unit.require_at_rest("loading of weights");
    const auto parameters = unit.flat().parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      unit.flat().store(i, file.read({parameters[i]->name, dims_of(*parameters[i])}));
    }
  }
}

}  // namespace nanofsdp::train
