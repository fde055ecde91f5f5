#include "train/model_file.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <stdexcept>

#include "base/check.h"
#include "base/json.h"
#include "data/bpe_tokenizer.h"
#include "gpt/gpt.h"
#include "store/checkpoint.h"
#include "store/weights.h"
#include "store/weights_files.h"

namespace nanofsdp {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GeneratorState, words, position, has_cached_normal,
                                   cached_normal)
}  // namespace nanofsdp

namespace nanofsdp::gpt {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GPTConfig, block_size, vocab_size, n_layer, n_head, n_embd,
                                   dropout, bias)
}  // namespace nanofsdp::gpt

namespace nanofsdp::train {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunState, iteration, best_val_loss, generator, alphabet,
                                   vocab_size, pieces, options)
namespace {

using nlohmann::json;

WeightsInfo info_of(const json& j) {
  return {.config = j,
          .chars = j.at("chars"),
          .iteration = j.at("iter_num"),
          .val_loss = j.at("val_loss").is_null() ? std::nan("") : j.at("val_loss").get<double>(),
          .pieces = j.value("pieces", std::vector<std::string>())};
}

// Whether the description is one of these tensors. A file may contain any description, so it is
// believed only if it is.
bool describes(const WeightsInfo& info, const std::vector<store::TensorInfo>& tensors) {
  // The limit of options too: products of three sizes do not overflow.
  constexpr std::int64_t kMost = 1'000'000;
  const gpt::GPTConfig& c = info.config;
  const auto sizes = {c.block_size, c.vocab_size, c.n_layer, c.n_head, c.n_embd};
  if (std::max(sizes) > kMost || std::ssize(tensors) < c.n_layer ||
      make_tokenizer(info)->vocab_size() != c.vocab_size)
    return false;
  gpt::GPT model(c);
  const auto parameters = model.named_parameters();
  const auto is_there = [&](const nn::Parameter* parameter) {
    return std::ranges::count(tensors, store::info_of(*parameter)) == 1;
  };
  return tensors.size() == parameters.size() && std::ranges::all_of(parameters, is_there);
}

}  // namespace

store::Metadata metadata_of(const RunState& state) { return store::texts_of(json(state)); }

RunState run_state_of(const store::Metadata& metadata, const std::string& out_dir) try {
  json j = RunState{};
  for (const auto& [name, value] : j.items()) {
    const std::string& text = metadata.at(name);
    value = value.is_string() ? json(text) : parse_json(text, {.what = name});
  }
  json& loss = j["best_val_loss"];
  if (loss.is_null()) loss = RunState{}.best_val_loss;  // JSON has no infinity
  const RunState state = j;
  Generator(0).set_state(state.generator);  // throws if it is not a state
  if (state.iteration < 0 || state.vocab_size < std::ssize(state.pieces) ||
      state.vocab_size > 1'000'000)
    throw std::invalid_argument("counts that make no sense");
  return state;
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  NANOFSDP_REFUSE(.what = "checkpoint '" + store::checkpoint_path(out_dir).string() + "'",
                  .expected = "one saved by `nanofsdp train`", .got = error.what());
}

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
  return {{"format", "pt"}, {kDescription, j.dump()}};
}

WeightsInfo read_weights_info(const std::string& out_dir) {
  const store::WeightsFiles files(out_dir);
  const auto found = files.metadata().find(kDescription);
  const Fault fault{.what = "weights '" + files.path() + "'",
                    .expected = "a model saved by `nanofsdp train --out_dir=...`",
                    .got = "no description of the model in its metadata"};
  if (found == files.metadata().end()) throw UsageError(fault);
  return parse_json(found->second, fault, [&](const json& j) {
    const WeightsInfo info = info_of(j);
    if (describes(info, files.tensors())) return info;
    throw std::invalid_argument("other tensors than of its description " +
                                json(info.config).dump());
  });
}

}  // namespace nanofsdp::train
