#include "train/model_file.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "data/bpe_tokenizer.h"
#include "gpt/gpt.h"
#include "store/weights.h"

namespace nanofsdp::gpt {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GPTConfig, block_size, vocab_size, n_layer, n_head, n_embd,
                                   dropout, bias)
}  // namespace nanofsdp::gpt

namespace nanofsdp::train {
namespace {

using nlohmann::json;

constexpr const char* kKey = "nanofsdp";

WeightsInfo from_text(const std::string& text) {
  const json j = json::parse(text);
  return {.config = j,
          .chars = j.at("chars"),
          .iteration = j.at("iter_num"),
          .val_loss = j.at("val_loss").is_null() ? std::nan("") : j.at("val_loss").get<double>(),
          .pieces = j.value("pieces", std::vector<std::string>())};
}

// Whether the description is of these tensors: it could say anything, and is believed if it is.
bool describes(const WeightsInfo& info, const std::vector<store::TensorInfo>& tensors) {
  constexpr std::int64_t kMost = 1'000'000;  // as for options: products of three do not overflow
  const gpt::GPTConfig& c = info.config;
  const auto sizes = {c.block_size, c.vocab_size, c.n_layer, c.n_head, c.n_embd};
  if (std::max(sizes) > kMost || std::ssize(tensors) < c.n_layer ||
      make_tokenizer(info)->vocab_size() != c.vocab_size) {
    return false;
  }
  return std::ranges::all_of(gpt::GPT(c).named_parameters(), [&](const nn::Parameter* parameter) {
    return std::ranges::count(tensors, store::info_of(*parameter)) == 1;
  });
}

}  // namespace

std::shared_ptr<const data::Tokenizer> make_tokenizer(const WeightsInfo& info) {
  if (!info.chars.empty()) return std::make_shared<data::CharTokenizer>(info.chars);
  return std::make_shared<data::BpeTokenizer>(info.config.vocab_size, info.pieces);
}

store::Metadata metadata_of(const WeightsInfo& info) {
  json j = info.config;
  j["chars"] = info.chars;
  j["iter_num"] = info.iteration;
  j["val_loss"] = info.val_loss;
  if (!info.pieces.empty()) j["pieces"] = info.pieces;
  j["tied"]["lm_head.weight"] = "transformer.wte.weight";
  return {{"format", "pt"}, {kKey, j.dump()}};
}

WeightsInfo read_weights_info(const std::string& out_dir) {
  const std::string path = store::weights_path(out_dir).string();
  const store::SafetensorsFile file(path);
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

}  // namespace nanofsdp::train
