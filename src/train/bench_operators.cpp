#include <fmt/format.h>

#include <array>

#include "base/buffer.h"
#include "base/context.h"
#include "base/rng.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/matmul.h"
#include "train/bench.h"

namespace nanofsdp::train {
namespace {

constexpr double kBudget = 0.05;  // seconds a measurement

// Tensors of random numbers, for as long as the benchmark runs.
class Operands {
 public:
  explicit Operands(Context& context) : context_(context) {}
  Tensor operator()(Shape shape) {
    buffers_.emplace_back(context_.ledger, MemoryClass::activations,
                          static_cast<std::size_t>(shape.numel()) * size_of(DType::float32));
    const Tensor tensor = buffers_.back().tensor(shape);
    generator_.uniform(tensor.span<float>(), -1, 1);
    return tensor;
  }

 private:
  Context& context_;
  Generator generator_{1337};
  std::vector<Buffer> buffers_;
};

Candidate row(std::string name, double work, std::function<void()> call) {
  return {std::move(name), [call = std::move(call)] { return time_calls(call, kBudget); }, work};
}

// `rate` says how many of what a row's work in its seconds is.
void print(const std::vector<Candidate>& rows, int rounds, const char* unit,
           double (*rate)(double work, double seconds)) {
  const std::vector<Timing> timings = race(rows, rounds);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fmt::print("  {:<34} {:>9.3f} ms  {:>8.2f} {}\n", rows[i].name, timings[i].median * 1e3,
               rate(rows[i].work, timings[i].median), unit);
  }
}

struct MatmulCase {
  const char* name;
  std::int64_t N, M, K;
};
constexpr std::array kMatmuls = {
    MatmulCase{"4 x 128, c_attn", 768, 384, 128}, MatmulCase{"4 x 128, c_fc", 768, 512, 128},
    MatmulCase{"6 x 384, c_fc", 3072, 1536, 384}, MatmulCase{"6 x 384, c_proj", 3072, 384, 1536},
    MatmulCase{"124M, c_fc", 256, 3072, 768},     MatmulCase{"124M, lm_head", 256, 50304, 768}};

std::vector<Candidate> matmuls(Stream& stream, Operands& operands) {
  std::vector<Candidate> rows;
  for (const auto& [name, N, M, K] : kMatmuls) {
    const Tensor x = operands({N, K}), w = operands({M, K}), y = operands({N, M});
    const Tensor dx = operands({N, K}), dw = operands({M, K});
    const double flops = 2.0 * static_cast<double>(N * M) * static_cast<double>(K);
    rows.push_back(row(fmt::format("matmul {}, forward", name), flops, [=, &stream] {
      ops::matmul(stream, ops::MatmulForward{x, w, {}, y});
    }));
    rows.push_back(row(fmt::format("matmul {}, backward", name), 2 * flops, [=, &stream] {
      ops::matmul(stream, ops::MatmulBackward{y, x, w, dx, dw, {}});
    }));
  }
  return rows;
}

struct AttentionCase {
  std::int64_t B, T, C;
  int heads;
};
constexpr std::array kAttentions = {AttentionCase{12, 64, 128, 4}, AttentionCase{12, 256, 384, 6},
                                    AttentionCase{2, 1024, 768, 12}};

std::vector<Candidate> attentions(Stream& stream, Operands& operands) {
  std::vector<Candidate> rows;
  for (const auto& [B, T, C, heads] : kAttentions) {
    const Tensor y = operands({B, T, C}), dy = operands({B, T, C});
    const ops::AttentionForward forward{
        .qkv = operands({B, T, 3 * C}),
        .y = y,
        .lse = operands({B, heads, T}),
        .scratch = operands({ops::attention_scratch_numel(T, stream.threads())}),
        .heads = heads};
    const ops::AttentionBackward backward{.dy = dy,
                                          .qkv = forward.qkv,
                                          .y = y,
                                          .lse = forward.lse,
                                          .dqkv = operands({B, T, 3 * C}),
                                          .scratch = forward.scratch,
                                          .heads = heads};
    const double flops = 2.0 * static_cast<double>(B * T * T) * static_cast<double>(C);  // causal
    const std::string name = fmt::format("attention B={} T={} C={}", B, T, C);
    rows.push_back(
        row(name + ", forward", flops, [=, &stream] { ops::attention(stream, forward); }));
    rows.push_back(
        row(name + ", backward", 2.5 * flops, [=, &stream] { ops::attention(stream, backward); }));
  }
  return rows;
}

std::vector<Candidate> elementwise(Stream& stream, Operands& operands) {
  std::vector<Candidate> rows;
  for (const std::int64_t n : {std::int64_t{1} << 16, std::int64_t{1} << 24}) {
    const Tensor x = operands({n}), y = operands({n}), m = operands({n}), v = operands({n});
    const Tensor matrix = x.view({n / 512, 512}), out = y.view({n / 512, 512});
    const Tensor weight = operands({512}), mean = operands({n / 512}), rstd = operands({n / 512});
    const auto add = [&](const char* name, std::function<void()> call) {
      rows.push_back(row(fmt::format("{}, in {}", name, n > (1 << 20) ? "memory" : "cache"),
                         static_cast<double>(n), std::move(call)));
    };
    add("gelu forward", [=, &stream] { ops::gelu(stream, ops::GeluForward{x, y}); });
    add("gelu backward", [=, &stream] { ops::gelu(stream, ops::GeluBackward{m, x, y}); });
    add("layer_norm forward", [=, &stream] {
      ops::layer_norm(stream, ops::LayerNormForward{matrix, weight, {}, out, mean, rstd});
    });
    add("adamw", [=, &stream] {
      ops::adamw(stream, {.param = y, .grad = x, .m = m, .v = v, .lr = 1e-9, .beta2 = 0.99});
    });
  }
  return rows;
}

}  // namespace

void bench_operators(int threads, int rounds) {
  Context context(0, 1, threads);
  Operands operands(context);
  Stream& stream = *context.compute;
  const auto gigaflops = [](double work, double seconds) { return work / seconds / 1e9; };
  const auto nanoseconds = [](double work, double seconds) { return seconds * 1e9 / work; };
  fmt::print("\noperators, {} thread{}\n", threads, threads == 1 ? "" : "s");
  print(matmuls(stream, operands), rounds, "GF/s", gigaflops);
  print(attentions(stream, operands), rounds, "GF/s", gigaflops);
  print(elementwise(stream, operands), rounds, "ns/element", nanoseconds);
}

}  // namespace nanofsdp::train
