#include "plan/transformer.h"

#include <algorithm>
#include <utility>

namespace nanofsdp::plan {
namespace {

// A product of [tokens, in] and [in, out].
Kernel product(std::int64_t in, std::int64_t out, DType dtype) {
  const auto i = static_cast<double>(in), o = static_cast<double>(out);
  const auto width = static_cast<double>(size_of(dtype));
  return [=](double tokens, double) {
    return Cost{.products = 2 * tokens * i * o,
                .narrowest = std::min({tokens, i, o}),
                .bfloat16 = dtype == DType::bfloat16,
                .read = width * (tokens * i + i * o),
                .written = width * tokens * o};
  };
}

// Attention: a token sees half of its row. Two products forward, five backward.
Kernel attention(int products, std::int64_t C, DType dtype) {
  return [=, width = static_cast<double>(C)](double tokens, double row) {
    const double pairs = tokens * (row + 1) / 2;
    return Cost{.bfloat16 = dtype == DType::bfloat16, .attention = products * 2 * pairs * width};
  };
}

// Elementwise work, which reads or writes so many bytes a token.
Kernel elementwise(std::int64_t bytes, int launches) {
  return [=, half = static_cast<double>(bytes) / 2](double tokens, double) {
    return Cost{.read = tokens * half, .written = tokens * half, .launches = launches};
  };
}

// The elementwise work of a block: elements a token, as multiples of sizes, and kernels.
struct Elementwise {
  int width;     // of two norms; of sums on the residual path, in backward also of gradients
  int heads;     // queries and keys: of rotary positions
  int repeated;  // the same, if keys and values are repeated for their heads
  int inner;     // of the MLP's activation
  int launches;
};

// How a block is run: what stays until backward, as multiples of sizes, and its elementwise work.
struct Style {
  int kept_width, kept_inner;
  Elementwise forward, backward;
};

// A norm that is no kernel of its own goes by way of float32: 18 widths in 7 kernels forward, 46 in
// 14 backward. Rotary positions go by way of complex numbers in float32, compiled or not.
constexpr Style kGpt = {7, 2, {10, 0, 0, 2, 5}, {24, 0, 0, 4, 12}};
constexpr Style kEager = {11, 4, {2 * 18 + 6, 10, 2, 5, 26}, {2 * 46 + 15, 10, 2, 9, 46}};
constexpr Style kFusedNorm = {7, 4, {2 * 2 + 6, 10, 2, 5, 14}, {2 * 4 + 15, 10, 2, 9, 22}};
constexpr Style kCompiled = {7, 3, {2 * 2 + 4, 10, 1, 3, 10}, {2 * 6 + 2, 10, 1, 6, 15}};

const Style& style_of(const TransformerShape& shape, const Practice& practice) {
  if (!shape.is_llama) return kGpt;
  if (practice.compiled) return kCompiled;
  return practice.fused_norm ? kFusedNorm : kEager;
}

// [in, out] of its products, in their order.
std::vector<std::pair<std::int64_t, std::int64_t>> matrices(const TransformerShape& s) {
  const std::int64_t C = s.n_embd, K = s.n_kv(), F = s.n_inner;
  if (!s.is_llama) return {{C, 3 * C}, {C, C}, {C, F}, {F, C}};
  return {{C, C}, {C, K}, {C, K}, {C, C}, {C, F}, {C, F}, {F, C}};
}

Layer block(const TransformerShape& s, const Practice& practice, Recompute recompute) {
  const std::int64_t C = s.n_embd, K = s.n_kv(), F = s.n_inner, bytes = size_of(practice.dtype);
  const bool selective = recompute == Recompute::selective;
  const Style& style = style_of(s, practice);
  const auto pass = [&](const Elementwise& e) {
    const int of_heads = e.heads + (s.n_kv_head != s.n_head ? e.repeated : 0);
    return elementwise(bytes * (e.width * C + of_heads * (C + K) + e.inner * F), e.launches);
  };
  Layer layer{.parameters = {{C}, {C}}, .width = C, .dtype = practice.dtype};
  std::vector<Kernel>&forward = layer.forward.kernels, &backward = layer.backward.kernels;
  for (const auto& [in, out] : matrices(s)) {
    const bool odd = forward.size() % 2 == 1;
    layer.parameters.push_back({out, in});
    if (!s.is_llama) layer.parameters.push_back({out});
    forward.push_back(product(in, out, practice.dtype));
    if (selective && odd) backward.push_back(forward.back());
  }
  if (!s.is_llama) layer.parameters.push_back({2 * C});
  forward.push_back(attention(2, C, practice.dtype));
  forward.push_back(pass(style.forward));
  if (selective) backward.push_back(forward.back());
  if (recompute == Recompute::block) backward = forward;
  for (const auto& [in, out] : matrices(s)) {
    backward.insert(backward.end(), 2, product(in, out, practice.dtype));
  }
  backward.push_back(attention(5, C, practice.dtype));
  backward.push_back(pass(style.backward));

  const std::int64_t sums = 4 * s.n_head;  // of attention, in float32
  const std::int64_t all = bytes * (style.kept_width * C + style.kept_inner * F) + sums;
  layer.kept = selective ? bytes * (3 * C + K + F) + sums : all;
  if (recompute == Recompute::block) layer.kept = 0;
  layer.forward.temporaries = {all - layer.kept};
  layer.backward.temporaries = {all - layer.kept + bytes * (2 * F + 2 * C)};
  return layer;
}

}  // namespace

std::vector<Layer> transformer_layers(const TransformerShape& s, const Practice& practice) {
  const std::int64_t C = s.n_embd, V = s.vocab_size, bytes = size_of(practice.dtype);
  std::vector<Layer> layers = {{.name = "embedding",
                                .is_unit = false,
                                .parameters = {{V, C}},
                                .width = C,
                                .dtype = practice.dtype,
                                .forward = {.kernels = {elementwise(bytes * 2 * C, 1)}},
                                .backward = {.kernels = {elementwise(bytes * 3 * C, 1)}}}};
  if (!s.is_llama) layers[0].parameters.push_back({s.block_size, C});
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    const bool again = (i + 1) % practice.every == 0;
    layers.push_back(block(s, practice, again ? practice.recompute : Recompute::none));
    layers.back().name = "layers." + std::to_string(i);
  }
  // A norm, the product, the loss. Logits as they come and widened are temporary, as are gradients
  // by log-probabilities and by logits; log-probabilities are the output.
  const Kernel logits = product(C, V, practice.dtype);
  Layer& head = layers.emplace_back(
      Layer{.name = "head",
            .is_unit = false,
            .parameters = {{C}},
            .width = V,
            .kept = bytes * 2 * C,
            .forward = {{bytes * V, 4 * V},
                        {elementwise(bytes * 2 * C, 1), logits, elementwise(6 * V, 1)}},
            .backward = {{4 * V, 4 * V},
                         {elementwise(16 * V, 3), logits, logits, elementwise(bytes * 4 * C, 2)}}});
  if (!s.is_llama) head.parameters.push_back({C});
  if (!s.tied) head.parameters.push_back({V, C});
  return layers;
}

const TransformerShape* find_transformer(std::string_view name) {
  const auto* found = std::ranges::find(kTransformers, name, &TransformerShape::name);
  return found == std::end(kTransformers) ? nullptr : found;
}

}  // namespace nanofsdp::plan
