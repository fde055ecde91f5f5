#include "train/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "data/bpe_tokenizer.h"
#include "store/weights_files.h"

namespace nanofsdp::train {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostOfConfig = 1 << 20;  // largest size of config.json in bytes

// A name without the prefixes of torch.compile, DDP and Hugging Face.
std::string bare(const std::string& name) {
  static const std::regex prefixes(R"(^(_orig_mod\.|module\.|transformer\.)+)");
  return std::regex_replace(name, prefixes, "");
}

// The weights under our names, and in our layout. Tensors that are no parameter of the model are
// ignored.
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
    if (parameter.name == "transformer.wpe.weight") tensor.shape[0] = there.shape[0];
    const bool linear = dims.size() == 2 && parameter.name.find(".h.") != std::string::npos;
    if (linear && transposed_) {
      std::swap(tensor.shape[0], tensor.shape[1]);
      return transpose(files_.read(tensor), tensor.shape);
    }
    std::vector<float> values = files_.read(tensor);
    values.resize(static_cast<std::size_t>(parameter.shape.numel()));
    return values;
  }

 private:
  static std::vector<float> transpose(const std::vector<float>& x,
                                      const std::vector<std::int64_t>& shape) {
    const auto rows = static_cast<std::size_t>(shape[0]), cols = static_cast<std::size_t>(shape[1]);
    std::vector<float> y(x.size());
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < cols; ++j) y[j * rows + i] = x[i * cols + j];
    }
    return y;
  }

  store::WeightsFiles files_;
  std::map<std::string, const store::TensorInfo*> tensors_;  // by their names without prefixes
  bool transposed_ = false;
};

// A size that config.json gives, under GPT-2's name for it or under Hugging Face's general name.
std::int64_t size_in(const json& config, Fault fault, const char* name, const char* general,
                     const json& otherwise = nullptr) {
  const json size = config.value(name, config.value(general, otherwise));
  if (size.is_number_integer() && size >= 1 && size <= 1'000'000) return size;
  fault.expected = fmt::format("{} to be 1 to 1000000", name), fault.got = size.dump();
  throw UsageError(fault);
}

// Requires that config.json describes the computation of our model. A setting that is missing has
// the required value.
void require_computed(const json& config, Fault fault, std::int64_t width) {
  const std::pair<const char*, std::vector<json>> kComputed[] = {
      {"model_type", {"gpt2"}},
      {"activation_function", {"gelu_new", "gelu"}},
      {"layer_norm_epsilon", {1e-5}},
      {"scale_attn_weights", {true}},
      {"scale_attn_by_inverse_layer_idx", {false}},
      {"add_cross_attention", {false}},
      {"tie_word_embeddings", {true}},
      {"n_inner", {nullptr, 4 * width}}};
  for (const auto& [name, values] : kComputed) {
    const auto value = config.find(name);
    if (value == config.end() || std::ranges::count(values, *value) > 0) continue;
    fault.expected = fmt::format("{} to be {}", name, values[0].dump()), fault.got = value->dump();
    fault.hint = "we compute no other";
    throw UsageError(fault);
  }
}

}  // namespace

WeightsInfo read_pretrained_info(const std::string& directory) {
  const Pretrained weights(directory);
  if (weights.are_ours()) return read_weights_info(directory);
  const std::string path = directory + "/config.json";
  Fault fault{.what = "config '" + path + "'", .expected = "GPT-2's config.json, with n_head"};
  const json said = parse_json(read_file(path, fault, kMostOfConfig), fault);
  if (!said.is_object()) throw UsageError(fault);
  const auto first_of = [](std::int64_t layer) {
    return fmt::format("transformer.h.{}.ln_1.weight", layer);
  };
  std::int64_t layers = 0;
  while (weights.has(first_of(layers))) ++layers;
  layers = size_in(said, fault, "n_layer", "num_hidden_layers", layers);
  for (std::int64_t layer = 0; layer < layers; ++layer) weights.find(first_of(layer), 1);
  const auto size = [&](const char* name, const char* general, std::int64_t of_tensors) {
    const std::int64_t expected = size_in(said, fault, name, general, of_tensors);
    NANOFSDP_REFUSE_IF(expected != of_tensors, .what = "weights '" + directory + "'",
                       .expected = fmt::format("{} = {}, as config.json says", name, expected),
                       .got = fmt::to_string(of_tensors));
    return expected;
  };
  const auto &positions = weights.find("transformer.wpe.weight", 2).shape,
             &tokens = weights.find("transformer.wte.weight", 2).shape;
  const gpt::GPTConfig config{
      .block_size = size("n_positions", "max_position_embeddings", positions[0]),
      .vocab_size = size("vocab_size", "vocab_size", tokens[0]),
      .n_layer = layers,
      .n_head = size_in(said, fault, "n_head", "num_attention_heads"),
      .n_embd = size("n_embd", "hidden_size", tokens[1]),
      .bias = weights.has("transformer.ln_f.bias")};
  require_computed(said, fault, config.n_embd);
  fault.expected = fmt::format("n_head to divide the width {}", config.n_embd);
  fault.got = fmt::to_string(config.n_head);
  if (config.n_embd % config.n_head != 0) throw UsageError(fault);
  return {.config = config, .pieces = data::read_vocab_in(directory)};
}

void load_pretrained(const std::string& directory, fsdp::ShardedModel& model) {
  Pretrained file(directory);
  for (const fsdp::Unit& unit : model.units()) unit.require_at_rest("loading of weights");
  for (fsdp::ShardedParameters* row : model.rows()) {
    const auto parameters = row->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) row->store(i, file.read(*parameters[i]));
  }
}

}  // namespace nanofsdp::train
