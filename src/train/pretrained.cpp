#include "train/pretrained.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "store/weights_files.h"

namespace nanofsdp::train {
namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr std::uint64_t kMostOfConfig = 1 << 20;  // bytes

// The weights under our names, and in our layout.
class Pretrained {
 public:
  explicit Pretrained(const std::string& directory) : files_(directory) {
    prefix_ = find(std::string(kPrefix) + "wte.weight") != nullptr ? kPrefix : "";
    const auto& c_attn = shape("transformer.h.0.attn.c_attn.weight", 2);
    transposed_ = c_attn[0] < c_attn[1];
  }

  bool has(const std::string& name) const { return find(named(name)) != nullptr; }

  const std::vector<std::int64_t>& shape(const std::string& name, std::size_t rank) const {
    const store::TensorInfo* tensor = find(named(name));
    if (tensor != nullptr && tensor->shape.size() == rank) return tensor->shape;
    NANOFSDP_REFUSE(.what = "weights '" + files_.path() + "'",
                    .expected = fmt::format("GPT-2's '{}' of {} dimensions", named(name), rank),
                    .got = tensor == nullptr ? "none of that name" : "others");
  }

  // The parameter's elements.
  std::vector<float> read(const nn::Parameter& parameter) {
    const auto dims = parameter.shape.dims();
    store::TensorInfo tensor{named(parameter.name), {dims.begin(), dims.end()}};
    const bool positions = parameter.name == "transformer.wpe.weight";
    if (positions) tensor.shape[0] = shape(parameter.name, 2)[0];
    const bool linear = dims.size() == 2 && parameter.name.find(".h.") != std::string::npos;
    if (!linear || !transposed_) {
      std::vector<float> values = files_.read(tensor);
      if (positions) values.resize(static_cast<std::size_t>(parameter.shape.numel()));
      return values;
    }
    std::swap(tensor.shape[0], tensor.shape[1]);
    return transpose(files_.read(tensor), tensor.shape);
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

  std::string named(const std::string& ours) const { return prefix_ + ours.substr(kPrefix.size()); }

  const store::TensorInfo* find(const std::string& name) const {
    const auto found = std::ranges::find(files_.tensors(), name, &store::TensorInfo::name);
    return found == files_.tensors().end() ? nullptr : &*found;
  }

  store::WeightsFiles files_;
  std::string prefix_;
  bool transposed_ = false;
};

// The one size that no shape tells.
std::int64_t read_heads(const std::string& path) {
  Fault fault{.what = "config '" + path + "'", .expected = "GPT-2's config.json, with n_head"};
  const auto json = nlohmann::json::parse(read_file(path, fault, kMostOfConfig), nullptr, false);
  const auto heads = json.is_object() ? json.value("n_head", nlohmann::json()) : nlohmann::json();
  if (heads.is_number_unsigned() && heads >= 1 && heads <= 1'000'000) return heads;
  throw UsageError(fault);
}

}  // namespace

gpt::GPTConfig read_pretrained_config(const std::string& directory) {
  const Pretrained file(directory);
  gpt::GPTConfig config{.block_size = file.shape("transformer.wpe.weight", 2)[0],
                        .vocab_size = file.shape("transformer.wte.weight", 2)[0],
                        .n_layer = 0,
                        .n_head = read_heads(directory + "/config.json"),
                        .n_embd = file.shape("transformer.wte.weight", 2)[1],
                        .bias = file.has("transformer.ln_f.bias")};
  while (file.has(fmt::format("transformer.h.{}.ln_1.weight", config.n_layer))) ++config.n_layer;
  if (config.n_embd > 0 && config.n_embd % config.n_head == 0) return config;
  NANOFSDP_REFUSE(.what = "config '" + directory + "/config.json'",
                  .expected = fmt::format("n_head to divide the width {}", config.n_embd),
                  .got = fmt::to_string(config.n_head));
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
