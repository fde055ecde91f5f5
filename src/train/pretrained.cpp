#include "train/pretrained.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "data/bpe_tokenizer.h"
#include "gpt/gpt.h"
#include "store/weights_files.h"

namespace nanofsdp::train {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostOfConfig = 1 << 20;  // largest size of config.json in bytes
// The limit of options too: products of three sizes do not overflow.
constexpr std::int64_t kLargestSize = 1'000'000;

// A name without the prefixes of torch.compile, DDP and Hugging Face.
std::string bare(std::string_view name) {
  const auto cut = [&name](std::string_view prefix) {
    return name.starts_with(prefix) && (name.remove_prefix(prefix.size()), true);
  };
  while (cut("_orig_mod.") || cut("module.") || cut("transformer.")) continue;
  return std::string(name);
}

// The weights under our names, and in our layout. Tensors outside our model, such as other heads,
// are ignored.
class Pretrained {
 public:
  explicit Pretrained(const std::string& directory) : files_(directory) {
    for (const store::TensorInfo& tensor : files_.tensors()) tensors_[bare(tensor.name)] = &tensor;
    // Both names stand for the same parameter, and PyTorch's save_model keeps one of them.
    if (!tensors_.contains("wte.weight") && tensors_.contains("lm_head.weight"))
      tensors_["wte.weight"] = tensors_["lm_head.weight"];
    const auto& c_attn = find("transformer.h.0.attn.c_attn.weight", 2).shape;
    transposed_ = c_attn[0] < c_attn[1];
  }

  bool are_ours() const { return files_.metadata().contains(kDescription); }
  bool has(const std::string& name) const { return tensors_.contains(bare(name)); }

  const store::TensorInfo& find(const std::string& name, std::size_t rank) const {
    const auto found = tensors_.find(bare(name));
    if (found != tensors_.end() && found->second->shape.size() == rank) return *found->second;
    const auto like = std::ranges::find_if(
        tensors_, [&](const auto& tensor) { return tensor.first.ends_with("." + bare(name)); });
    NANOFSDP_REFUSE(.what = "weights '" + files_.path() + "'",
                    .expected = fmt::format("GPT-2's '{}' of {} dimensions", bare(name), rank),
                    .got = found != tensors_.end()  ? "others"
                           : like != tensors_.end() ? "'" + like->second->name + "'"
                                                    : "none of that name");
  }

  // Reads the elements of a parameter.
  std::vector<float> read(const nn::Parameter& parameter) {
    const auto dims = parameter.shape.dims();
    const store::TensorInfo& there = find(parameter.name, dims.size());
    store::TensorInfo tensor{there.name, {dims.begin(), dims.end()}};
    if (parameter.name == "transformer.wpe.weight")  // the model's context may be shorter
      tensor.shape[0] = std::max(tensor.shape[0], there.shape[0]);
    const bool linear = dims.size() == 2 && parameter.name.find(".h.") != std::string::npos;
    if (linear && transposed_) std::swap(tensor.shape[0], tensor.shape[1]);
    std::vector<float> values = files_.read(tensor);
    if (linear && transposed_) return transpose(values, tensor.shape);
    values.resize(static_cast<std::size_t>(parameter.shape.numel()));
    return values;
  }

  // Requires that the model has a parameter for every tensor of the layers, because without one of
  // them it would compute something else. Two kinds of tensors may be left out: masks of attention,
  // and a head with the values of the embedding.
  void require_all_known(const gpt::GPTConfig& config) {
    std::map<std::string, const store::TensorInfo*> rest = tensors_;
    gpt::GPT model(config);
    for (const nn::Parameter* parameter : model.named_parameters())
      rest.erase(bare(parameter->name));
    for (const auto& [name, tensor] : rest) {
      const bool mask = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
      const bool head = name == "lm_head.weight" &&
                        (tensor->shape != tensors_["wte.weight"]->shape ||
                         files_.read(*tensor) != files_.read(*tensors_["wte.weight"]));
      NANOFSDP_REFUSE_IF(head || (name.starts_with("h.") && !mask),
                         .what = "weights '" + files_.path() + "'",
                         .expected = fmt::format("{} layers {} biases, and the embedding as head",
                                                 config.n_layer, config.bias ? "with" : "without"),
                         .got = "'" + tensor->name + "' beside them");
    }
  }

 private:
  static std::vector<float> transpose(const std::vector<float>& x,
                                      const std::vector<std::int64_t>& shape) {
    const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
    std::vector<float> y(x.size());
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) y[j * rows + i] = x[i * cols + j];
    return y;
  }

  store::WeightsFiles files_;
  std::map<std::string, const store::TensorInfo*> tensors_;  // by their names without prefixes
  bool transposed_ = false;
};

// Requires that config.json has the sizes of the weights, and describes the computation of our
// model. A setting that is missing has the required value.
void require_said(const json& said, Fault fault, const gpt::GPTConfig& config) {
  const std::pair<const char*, std::vector<json>> kSaid[] = {
      {"n_layer", {config.n_layer}},
      {"n_embd", {config.n_embd}},
      {"vocab_size", {config.vocab_size}},
      {"n_positions", {config.block_size}},
      {"model_type", {"gpt2"}},
      {"activation_function", {"gelu_new", "gelu"}},
      {"layer_norm_epsilon", {1e-5}},
      {"scale_attn_weights", {true}},
      {"scale_attn_by_inverse_layer_idx", {false}},
      {"add_cross_attention", {false}},
      {"tie_word_embeddings", {true}},
      {"n_inner", {nullptr, 4 * config.n_embd}}};
  for (const auto& [name, values] : kSaid) {
    const auto value = said.find(name);
    if (value == said.end() || std::ranges::count(values, *value) > 0) continue;
    fault.expected = fmt::format("{} to be {}", name, values[0].dump()), fault.got = value->dump();
    fault.hint = "we have no other model for these weights";
    throw UsageError(fault);
  }
}

}  // namespace

WeightsInfo read_model_info(const std::string& directory) {
  Pretrained weights(directory);
  if (weights.are_ours()) return read_weights_info(directory);
  const std::string path = directory + "/config.json";
  Fault fault{.what = "config '" + path + "'", .expected = "GPT-2's config.json, with n_head"};
  const json said = parse_json(read_file(path, fault, kMostOfConfig), fault);
  if (!said.is_object()) throw UsageError(fault);
  std::int64_t layers = 0;
  while (weights.has(fmt::format("h.{}.ln_1.weight", layers))) ++layers;
  const auto &positions = weights.find("transformer.wpe.weight", 2).shape,
             &tokens = weights.find("transformer.wte.weight", 2).shape;
  gpt::GPTConfig config{.block_size = positions[0],
                        .vocab_size = tokens[0],
                        .n_layer = layers,
                        .n_embd = tokens[1],
                        .bias = weights.has("transformer.ln_f.bias")};
  require_said(said, fault, config);
  const auto sizes = {config.block_size, config.vocab_size, config.n_layer, config.n_embd};
  NANOFSDP_REFUSE_IF(std::min(sizes) < 1 || std::max(sizes) > kLargestSize,
                     .what = "weights '" + directory + "'",
                     .expected = fmt::format("sizes from 1 to {}", kLargestSize),
                     .got = fmt::format("{}", fmt::join(sizes, ", ")));
  const json heads = said.value("n_head", json());
  fault.expected = fmt::format("n_head to divide the width {}", config.n_embd);
  fault.got = heads.dump();
  config.n_head = heads.is_number_integer() ? heads.get<std::int64_t>() : 0;
  if (config.n_head < 1 || config.n_embd % config.n_head != 0) throw UsageError(fault);
  weights.require_all_known(config);
  return {.config = config, .pieces = data::read_vocab_in(directory)};
}

void load_model(const std::string& directory, fsdp::ShardedModel& model) {
  const auto busy = model.mesh().world().busy("loads weights");
  Pretrained file(directory);
  for (const fsdp::Unit& unit : model.units()) unit.require_at_rest("loading of weights");
  for (fsdp::ShardedParameters* row : model.rows()) {
    const auto parameters = row->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) row->store(i, file.read(*parameters[i]));
  }
}

}  // namespace nanofsdp::train
