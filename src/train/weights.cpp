#include "train/weights.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "train/safetensors.h"

namespace nanofsdp::train {
namespace {

using nlohmann::json;

constexpr const char* kKey = "nanofsdp";

std::vector<std::int64_t> dims_of(const nn::Parameter& parameter) {
  const auto dims = parameter.shape.dims();
  return {dims.begin(), dims.end()};
}

std::string to_json(const WeightsInfo& info) {
  const gpt::GPTConfig& c = info.config;
  return json{{"block_size", c.block_size},
              {"vocab_size", c.vocab_size},
              {"n_layer", c.n_layer},
              {"n_head", c.n_head},
              {"n_embd", c.n_embd},
              {"dropout", c.dropout},
              {"bias", c.bias},
              {"chars", info.chars},
              {"iter_num", info.iteration},
              {"val_loss", info.val_loss},
              {"tied", {{"lm_head.weight", "transformer.wte.weight"}}}}
      .dump();
}

WeightsInfo from_json(const std::string& text) {
  const json j = json::parse(text);
  WeightsInfo info;
  info.config = {.block_size = j.at("block_size"),
                 .vocab_size = j.at("vocab_size"),
                 .n_layer = j.at("n_layer"),
                 .n_head = j.at("n_head"),
                 .n_embd = j.at("n_embd"),
                 .dropout = j.at("dropout"),
                 .bias = j.at("bias")};
  info.chars = j.at("chars");
  info.iteration = j.at("iter_num");
  info.val_loss = j.at("val_loss");
  return info;
}

}  // namespace

std::filesystem::path weights_path(const std::string& out_dir) {
  return std::filesystem::path(out_dir) / "model.safetensors";
}

void prepare_out_dir(const std::string& out_dir) {
  std::error_code error;
  std::filesystem::create_directories(out_dir, error);
  const auto probe = std::filesystem::path(out_dir) / ".writable";
  if (error || !std::ofstream(probe)) {
    throw UsageError({.what = "--out_dir",
                      .expected = "a directory that can be written to",
                      .got = "'" + out_dir + "'" + (error ? " (" + error.message() + ")" : ""),
                      .hint = "name another one"});
  }
  std::filesystem::remove(probe, error);
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
                   Metadata{{"format", "pt"}, {kKey, to_json(info)}});
  }
  model.summon_full_parameters([&](const nn::Parameter& parameter) {
    if (writer) writer->append(parameter.data.span<float>());
  });
  if (writer) writer->finish();
}

WeightsInfo read_weights_info(const std::string& out_dir) {
  const std::string path = weights_path(out_dir).string();
  const SafetensorsFile file(path);
  const auto found = file.metadata().find(kKey);
  try {
    if (found != file.metadata().end()) return from_json(found->second);
  } catch (const json::exception&) {  // said below
  }
  throw UsageError({.what = path,
                    .expected = "a model saved by `nanofsdp train --out_dir=...`",
                    .got = "no description of the model in its metadata"});
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
