#include "plan/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace nanofsdp {
extern const std::string_view kModels;  // data/models.txt
}

namespace nanofsdp::plan {
namespace {

// The elementwise work of a block: the number of kernels, and the elements that they read or write
// for a token, as multiples of sizes. Multiples of the width: two norms, and the sums on the
// residual path, in backward also of gradients. Multiples of the heads' size, for queries and keys:
// rotary positions; `repeated` counts only if keys and values are repeated for query heads.
// Multiples of the inner width: the activation of the MLP.
struct Elementwise {
  int width, heads, repeated, inner, launches;
};

// How a program runs a block: the activations that stay until backward, as multiples of sizes, and
// the elementwise work.
struct Style {
  int kept_width, kept_inner;
  Elementwise forward, backward;
};

// A norm that is not one kernel is computed in float32, by many kernels: 7 in forward that read or
// write 18 widths, and 14 in backward with 46. Rotary positions use complex numbers of float32,
// compiled or not.
constexpr Style kGpt = {7, 2, {10, 0, 0, 2, 5}, {24, 0, 0, 4, 12}};
constexpr Style kCompiledGpt = {6, 1, {8, 0, 0, 2, 3}, {12, 0, 0, 4, 6}};
constexpr Style kEager = {11, 4, {2 * 18 + 6, 10, 2, 5, 26}, {2 * 46 + 15, 10, 2, 9, 46}};
constexpr Style kFusedNorm = {7, 4, {2 * 2 + 6, 10, 2, 5, 14}, {2 * 4 + 15, 10, 2, 9, 22}};
constexpr Style kCompiled = {7, 3, {2 * 2 + 4, 10, 1, 3, 10}, {2 * 6 + 2, 10, 1, 6, 15}};

const Style& style_of(const TransformerShape& shape, const Practice& practice) {
  if (!shape.is_llama) return practice.compiled ? kCompiledGpt : kGpt;
  return practice.compiled ? kCompiled : practice.fused_norm ? kFusedNorm : kEager;
}

// A rank's products. A tensor group divides the rows of a weight, and then the columns of the next
// one (Megatron-LM): each rank has some heads, and a part of the inner width.
std::vector<Kernel> products_of(const TransformerShape& s, std::int64_t T) {
  const std::int64_t C = s.n_embd, D = C / T, K = s.n_kv() / T, F = s.n_inner / T;
  if (!s.is_llama) return {{C, 3 * D}, {D, C}, {C, F}, {F, C}};
  return {{C, D}, {C, K}, {C, K}, {D, C}, {C, F}, {C, F}, {F, C}};
}

Layer block(const TransformerShape& s, const Practice& practice, Recompute recompute) {
  const std::int64_t T = practice.tensor, bytes = size_of(practice.dtype), C = s.n_embd, D = C / T,
                     K = s.n_kv() / T, F = s.n_inner / T;
  const std::vector<Kernel> products = products_of(s, T);
  const Kernel sum{.summed = T > 1 ? bytes * C : 0, .launches = 0};
  const bool selective = recompute == Recompute::selective;
  const Style& style = style_of(s, practice);
  const auto elementwise = [&](const Elementwise& e) -> Kernel {
    const int of_heads = e.heads + (s.n_kv_head != s.n_head ? e.repeated : 0);
    const std::int64_t elements = e.width * D + of_heads * (D + K) + e.inner * F;
    return {.bytes = bytes * elements, .launches = e.launches};
  };
  Layer layer{.is_unit = true, .parameters = {{C}, {C}}, .width = D, .dtype = practice.dtype};
  std::vector<Kernel>&forward = layer.forward.kernels, &backward = layer.backward.kernels;
  for (const Kernel& product : products) {
    layer.parameters.push_back({product.out, product.in});
    if (!s.is_llama) layer.parameters.push_back({product.out});
    forward.push_back(product);
    if (selective && forward.size() % 2 == 0) backward.push_back(product);
  }
  if (!s.is_llama) layer.parameters.push_back({2 * C});
  forward.push_back({.attention = 2 * 2 * D});  // two products; in backward five
  forward.push_back(elementwise(style.forward));
  if (selective) backward.push_back(forward.back());
  forward.insert(forward.end(), 2, sum);
  // The inputs of two products are gathered again, and block recompute also adds up attention
  // again.
  if (selective) backward.push_back(sum);
  if (recompute == Recompute::block) {
    backward = forward;
    backward.back().summed /= 2;
    // PyTorch stops when it has all that backward reads. Nothing reads the last product's output.
    backward.erase(backward.begin() + std::ssize(products) - 1);
  }
  for (const Kernel& product : products) backward.insert(backward.end(), 2, product);
  backward.insert(backward.end(), 2, sum);
  backward.push_back({.attention = 5 * 2 * D});
  backward.push_back(elementwise(style.backward));

  // The sums of attention, in float32. Plain attention keeps scores and their softmax.
  const std::int64_t sums =
      s.n_head / T * (practice.attention == "plain" ? 2 * bytes * s.block_size : 4);
  const std::int64_t all = bytes * (style.kept_width * D + style.kept_inner * F) + sums;
  layer.kept = selective ? bytes * (3 * D + K + F) + sums : all;
  if (recompute == Recompute::block) layer.kept = 0;
  layer.forward.temporaries = {all - layer.kept};
  layer.backward.temporaries = {all - layer.kept + bytes * (2 * F + 2 * D)};
  return layer;
}

}  // namespace

Layer transformer(const TransformerShape& s, const Practice& practice) {
  const std::int64_t T = practice.tensor, V = (s.vocab_size + T - 1) / T, C = s.n_embd, D = C / T,
                     bytes = size_of(practice.dtype);
  Layer embedding{.parameters = {{V, C}}, .width = D, .dtype = practice.dtype};
  // The half of an all-reduce that the head has, in either direction, is counted here.
  const Kernel sum{.summed = T > 1 ? bytes * C : 0, .launches = 0};
  embedding.forward.kernels = {{.bytes = bytes * 2 * C}, sum};
  embedding.backward.kernels = {{.bytes = bytes * 3 * C}, sum};
  if (!s.is_llama) embedding.parameters.push_back({s.block_size, C});
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const bool again = std::floor((i + 1) / practice.every) > std::floor(i / practice.every);
    embedding.behind.push_back(block(s, practice, again ? practice.recompute : Recompute::none));
  }
  // The head: a norm, the product, the loss. In a loss that is not fused, the logits, as the
  // product gives them and widened, are temporary. So are the gradients of the log-probabilities
  // and of the logits. The log-probabilities are the output. A fused loss takes the product's
  // logits, and makes their gradients.
  Layer head{.parameters = {{C}}, .width = V, .kept = bytes * (C + D)};
  head.forward = {{bytes * V, 4 * V}, {{.bytes = bytes * 2 * D}, {C, V}, {.bytes = 6 * V}}};
  head.backward = {
      {4 * V, 4 * V},
      {{.bytes = 16 * V, .launches = 3}, {C, V}, {C, V}, {.bytes = bytes * 4 * D, .launches = 2}}};
  if (practice.fused_loss) {
    head.dtype = practice.dtype;
    head.forward = {{}, {{.bytes = bytes * 2 * D}, {C, V}}};
    head.backward = {{bytes * V}, {{C, V}, {C, V}, {.bytes = bytes * 4 * D, .launches = 2}}};
  }
  if (!s.is_llama) head.parameters.push_back({C});
  if (!s.tied) head.parameters.push_back({V, C});
  embedding.behind.push_back(head);
  return embedding;
}

std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = text.find_first_not_of(" \n"); begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(" \n", end);
  }
  return words;
}

std::vector<TransformerShape> transformers() {
  const std::vector<std::string> words = words_in(kModels);
  std::vector<TransformerShape> all;
  // There are 11 columns, and the first row has their names.
  for (std::size_t i = 11; i < words.size(); i += 11) {
    const auto n = [&](std::size_t c) { return std::strtoll(words[i + c].c_str(), nullptr, 10); };
    all.push_back(
        {words[i], words[i + 1], n(2) != 0, n(3), n(4), n(5), n(6), n(7), n(8), n(9), n(10) != 0});
  }
  return all;
}

std::optional<TransformerShape> find_transformer(std::string_view name) {
  for (const TransformerShape& shape : transformers())
    if (shape.name == name) return shape;
  return {};
}

}  // namespace nanofsdp::plan
