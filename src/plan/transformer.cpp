#include "plan/transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gpt/block.h"

namespace nanofsdp::plan {
namespace {

// Elements that a kernel of elementwise work reads or writes for each token, and how many kernels.
struct Pass {
  double elements = 0;
  int launches = 0;
};

// Enqueues costs; nothing is ever computed.
class Kernels {
 public:
  Kernels(nn::Tape& tape, double tokens, DType dtype)
      : tape_(tape), tokens_(tokens), width_(static_cast<double>(size_of(dtype))) {
    bfloat16_ = dtype == DType::bfloat16;
  }

  /// `count` products of [tokens, in] and [in, out].
  void products(int count, std::int64_t in, std::int64_t out) {
    const auto i = static_cast<double>(in), o = static_cast<double>(out);
    for (int n = 0; n < count; ++n) {
      issue({.products = 2 * tokens_ * i * o,
             .narrowest = std::min({tokens_, i, o}),
             .bfloat16 = bfloat16_,
             .read = width_ * (tokens_ * i + i * o),
             .written = width_ * tokens_ * o});
    }
  }
  /// Attention of T tokens a row: a query sees half of them. Two products forward, five backward.
  void attention(int products, std::int64_t T, std::int64_t C) {
    const double pairs = tokens_ * static_cast<double>(T + 1) / 2;
    issue({.bfloat16 = bfloat16_, .attention = products * 2 * pairs * static_cast<double>(C)});
  }
  void pass(const Pass& pass, double width = 0) {
    const double bytes = tokens_ * pass.elements * (width > 0 ? width : width_);
    issue({.read = bytes / 2, .written = bytes / 2, .launches = pass.launches});
  }

 private:
  void issue(const Cost& cost) {
    tape_.stream().enqueue(cost, [] {});
  }

  nn::Tape& tape_;
  double tokens_, width_;
  bool bfloat16_;
};

// Memory for so many elements a token.
Tensor room(nn::Tape& tape, std::int64_t tokens, double elements, DType dtype) {
  return tape.allocate({tokens, static_cast<std::int64_t>(elements)}, dtype);
}

std::shared_ptr<nn::Parameter> weight(const Shape& shape) {
  return std::make_shared<nn::Parameter>(shape, nn::Init::zeros());
}

}  // namespace

class Transformer::Block final : public nn::Module {
 public:
  Block(const TransformerShape& shape, const Practice& practice)
      : s_(shape),
        practice_(practice),
        C_(static_cast<double>(shape.n_embd)),
        K_(static_cast<double>(shape.n_kv())),
        F_(static_cast<double>(shape.n_inner)) {
    const std::int64_t C = s_.n_embd, K = s_.n_kv(), F = s_.n_inner;
    add("attention_norm.weight", weight({C}));
    add("ffn_norm.weight", weight({C}));
    if (s_.is_llama) {
      matrices_ = {{C, C}, {C, K}, {C, K}, {C, C}, {C, F}, {C, F}, {F, C}};
    } else {
      matrices_ = {{C, 3 * C}, {C, C}, {C, F}, {F, C}};
    }
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const auto& [in, out] = matrices_[i];
      add("weight_" + std::to_string(i), weight({out, in}));
      if (!s_.is_llama) add("bias_" + std::to_string(i), weight({out}));
    }
    if (!s_.is_llama) add("norm_biases", weight({2 * C}));
  }

 private:
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const std::int64_t tokens = x.dim(0) * x.dim(1);
    const Tensor kept = room(tape, tokens, saved(practice_.recompute), practice_.dtype);
    const Tensor y = tape.allocate(x.shape(), x.dtype());
    const nn::Tape::Scope temporaries(tape);
    room(tape, tokens, saved(Recompute::none) - saved(practice_.recompute), practice_.dtype);
    compute(tape, x, Recompute::block);
    tape.save({x, kept});
    return y;
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const auto [x, kept] = tape.restore<2>();
    const std::int64_t tokens = x.dim(0) * x.dim(1);
    for (const auto& [name, parameter] : own_parameters()) parameter->grad();
    const nn::Tape::Scope temporaries(tape);
    room(tape, tokens, saved(Recompute::none) - saved(practice_.recompute) + 2 * F_ + 2 * C_,
         practice_.dtype);
    compute(tape, x, practice_.recompute);
    Kernels kernels(tape, static_cast<double>(tokens), practice_.dtype);
    for (const auto& [in, out] : matrices_) kernels.products(2, in, out);
    kernels.attention(5, x.dim(1), s_.n_embd);
    kernels.pass(backward_pass());
    return dy;
  }

  // Forward, or what of it backward has to do again.
  void compute(nn::Tape& tape, const Tensor& x, Recompute again) const {
    if (again == Recompute::none) return;
    Kernels kernels(tape, static_cast<double>(x.dim(0) * x.dim(1)), practice_.dtype);
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      const bool kept = again == Recompute::selective && i % 2 == 0;
      if (!kept) kernels.products(1, matrices_[i].first, matrices_[i].second);
    }
    if (again == Recompute::block) kernels.attention(2, x.dim(1), s_.n_embd);
    kernels.pass(forward_pass());
  }

  // Elements a token that stay until backward, but for the output.
  double saved(Recompute recompute) const {
    const double sums = 4.0 / size_of(practice_.dtype) * static_cast<double>(s_.n_head);
    if (recompute == Recompute::block) return 0;
    if (recompute == Recompute::selective) return 3 * C_ + K_ + F_ + sums;
    if (!s_.is_llama) return 7 * C_ + 2 * F_ + sums;
    const bool wide_norm = !practice_.compiled && !practice_.fused_norm;  // by way of float32
    return (wide_norm ? 11 : 7) * C_ + (practice_.compiled ? 3 : 4) * F_ + sums;
  }

  // Elements a token, and kernels, of: norms; rotary positions, which go by way of complex numbers
  // in float32 and stay as they are when the rest is compiled; keys and values repeated for their
  // heads; sums of the residual path; the MLP's activation. In this order.
  Pass forward_pass() const {
    if (!s_.is_llama) return {2 * 2 * C_ + 2 * 3 * C_ + 2 * F_, 5};
    const double heads = C_ + K_, repeated = s_.n_kv_head != s_.n_head ? heads : 0;
    if (practice_.compiled) {
      return {2 * 2 * C_ + 10 * heads + repeated + 2 * 2 * C_ + 3 * F_, 10};
    }
    const Pass norms = practice_.fused_norm ? Pass{2 * 2 * C_, 2} : Pass{2 * 18 * C_, 14};
    return {norms.elements + 10 * heads + 2 * repeated + 2 * 3 * C_ + 5 * F_, norms.launches + 12};
  }

  // The same, and the sums of gradients that meet.
  Pass backward_pass() const {
    if (!s_.is_llama) return {2 * 5 * C_ + 2 * 3 * C_ + 3 * F_ + 5 * C_ + F_ + 3 * C_, 12};
    const double heads = C_ + K_, repeated = s_.n_kv_head != s_.n_head ? heads : 0;
    if (practice_.compiled) {
      return {2 * 6 * C_ + 10 * heads + repeated + 6 * F_ + 2 * C_, 15};
    }
    const Pass norms = practice_.fused_norm ? Pass{2 * 4 * C_, 4} : Pass{2 * 46 * C_, 28};
    return {norms.elements + 10 * heads + 2 * repeated + 2 * 3 * C_ + 9 * F_ + 3 * 3 * C_,
            norms.launches + 18};
  }

  TransformerShape s_;
  Practice practice_;
  double C_, K_, F_;
  std::vector<std::pair<std::int64_t, std::int64_t>> matrices_;  // in, out
};

Transformer::Transformer(const TransformerShape& shape, const Practice& practice)
    : shape_(shape), practice_(practice) {
  add("tok_embeddings.weight", weight({shape.vocab_size, shape.n_embd}));
  if (!shape.is_llama) add("positions.weight", weight({shape.block_size, shape.n_embd}));
  for (std::int64_t i = 0; i < shape.n_layer; ++i) {
    Practice of_block = practice;
    if ((i + 1) % practice.every != 0) of_block.recompute = Recompute::none;
    blocks_.push_back(std::make_unique<Block>(shape, of_block));
    add("layers." + std::to_string(i), *blocks_.back());
  }
  add("norm.weight", weight({shape.n_embd}));
  if (!shape.is_llama) add("norm.bias", weight({shape.n_embd}));
  if (!shape.tied) add("output.weight", weight({shape.vocab_size, shape.n_embd}));
}

Tensor Transformer::do_forward(nn::Tape& tape, Tensor tokens) {
  const std::int64_t n = tokens.numel(), C = shape_.n_embd, V = shape_.vocab_size;
  Kernels kernels(tape, static_cast<double>(n), practice_.dtype);
  Tensor x = tape.allocate({tokens.dim(0), tokens.dim(1), C}, practice_.dtype);
  kernels.pass({2.0 * static_cast<double>(C), 1});
  for (const auto& block : blocks_) x = block->forward(tape, x);
  room(tape, n, 2.0 * static_cast<double>(C), practice_.dtype);  // the last norm's
  kernels.pass({2.0 * static_cast<double>(C), 1});
  kernels.products(1, C, V);
  const Tensor logits = tape.allocate({tokens.dim(0), tokens.dim(1), V});  // log-probabilities
  {
    const nn::Tape::Scope temporaries(tape);  // logits as they come, and widened
    tape.allocate({n, V}, practice_.dtype);
    tape.allocate({n, V});
    kernels.pass({static_cast<double>(V), 1}, 6);
  }
  tape.save({x});
  return logits;
}

Tensor Transformer::do_backward(nn::Tape& tape, Tensor) {
  const auto [x] = tape.restore<1>();
  const std::int64_t n = x.dim(0) * x.dim(1), C = shape_.n_embd, V = shape_.vocab_size;
  for (const auto& [name, parameter] : own_parameters()) parameter->grad();
  Kernels kernels(tape, static_cast<double>(n), practice_.dtype);
  Tensor d = tape.allocate(x.shape(), x.dtype());
  {
    const nn::Tape::Scope temporaries(tape);  // by log-probabilities, by logits
    tape.allocate({n, V});
    tape.allocate({n, V});
    kernels.pass({static_cast<double>(V), 3}, 16);
    kernels.products(2, C, V);
  }
  kernels.pass({4.0 * static_cast<double>(C), 2});
  for (std::size_t i = blocks_.size(); i-- > 0;) d = blocks_[i]->backward(tape, d);
  kernels.pass({3.0 * static_cast<double>(C), 1});
  return {};
}

const std::vector<TransformerShape>& known_transformers() {
  const auto llama = [](std::string_view name, std::int64_t L, std::int64_t C, std::int64_t H,
                        std::int64_t H_kv, std::int64_t F, std::int64_t V, std::int64_t T,
                        bool tied = false) {
    return TransformerShape{name, true, L, C, H, H_kv, F, V, T, tied};
  };
  const auto mpt = [](std::string_view name, std::int64_t L, std::int64_t C, std::int64_t H) {
    return TransformerShape{name, false, L, C, H, H, 4 * C, 50'368, 2048, true};
  };
  static const std::vector<TransformerShape> kAll = {
      llama("llama-2-7b", 32, 4096, 32, 32, 11'008, 32'000, 4096),
      llama("llama-2-13b", 40, 5120, 40, 40, 13'824, 32'000, 4096),
      llama("llama-2-34b", 48, 8192, 64, 8, 22'016, 32'000, 4096),
      llama("llama-2-70b", 80, 8192, 64, 8, 28'672, 32'000, 4096),
      llama("llama-3-1b", 16, 2048, 32, 8, 8192, 128'256, 8192, true),
      llama("llama-3-3b", 28, 3072, 24, 8, 8192, 128'256, 8192, true),
      llama("llama-3-8b", 32, 4096, 32, 8, 14'336, 128'256, 8192),
      llama("llama-3-70b", 80, 8192, 64, 8, 28'672, 128'256, 8192),
      llama("llama-3-405b", 126, 16'384, 128, 8, 53'248, 128'256, 8192),
      llama("nanotron-1.3b", 16, 2048, 32, 32, 8192, 131'072, 4096, true),
      mpt("mpt-760m", 24, 1536, 12),
      mpt("mpt-1b", 24, 2048, 16),
      mpt("mpt-3b", 32, 2560, 20),
      mpt("mpt-7b", 32, 4096, 32),
      mpt("mpt-13b", 40, 5120, 40),
      mpt("mpt-30b", 48, 7168, 56),
      mpt("mpt-70b", 80, 8192, 64)};
  return kAll;
}

const TransformerShape* find_transformer(std::string_view name) {
  const auto found = std::ranges::find(known_transformers(), name, &TransformerShape::name);
  return found == known_transformers().end() ? nullptr : &*found;
}

bool is_block(const nn::Module& module) {
  return dynamic_cast<const Transformer::Block*>(&module) != nullptr ||
         dynamic_cast<const gpt::Block*>(&module) != nullptr;
}

}  // namespace nanofsdp::plan
