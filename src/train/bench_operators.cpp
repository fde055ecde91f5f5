#include <fmt/format.h>

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

// A candidate and what one call of it does, to turn seconds into a rate.
struct Row {
  Candidate candidate;
  double work = 0;  // floating-point operations, or elements
};

void print_rates(const std::vector<Row>& rows, int rounds, const char* unit, double per_unit) {
  std::vector<Candidate> candidates;
  for (const Row& row : rows) candidates.push_back(row.candidate);
  const std::vector<Timing> timings = race(candidates, rounds);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fmt::print("  {:<34} {:>9.3f} ms  {:>8.2f} {}\n", timings[i].name, timings[i].median * 1e3,
               per_unit > 0 ? rows[i].work / timings[i].median / per_unit
                            : timings[i].median * 1e9 / rows[i].work,
               unit);
  }
}

std::vector<Row> matmul_rows(Context& context, Operands& operands) {
  std::vector<Row> rows;
  struct Case {
    const char* name;
    std::int64_t N, M, K;
  };
  for (const auto& [name, N, M, K] :
       {Case{"4 x 128, c_attn", 768, 384, 128}, Case{"4 x 128, c_fc", 768, 512, 128},
        Case{"6 x 384, c_fc", 3072, 1536, 384}, Case{"6 x 384, c_proj", 3072, 384, 1536},
        Case{"124M, c_fc", 256, 3072, 768}, Case{"124M, lm_head", 256, 50304, 768}}) {
    const Tensor x = operands({N, K}), w = operands({M, K}), y = operands({N, M});
    const Tensor dx = operands({N, K}), dw = operands({M, K});
    const double flops = 2.0 * static_cast<double>(N * M) * static_cast<double>(K);
    Stream& stream = *context.compute;
    rows.push_back({{fmt::format("matmul {}, forward", name),
                     [=, &stream] {
                       return time_calls(
                           [&] {
                             ops::matmul(stream, ops::MatmulForward{x, w, {}, y});
                           },
                           kBudget);
                     }},
                    flops});
    rows.push_back({{fmt::format("matmul {}, backward", name),
                     [=, &stream] {
                       return time_calls(
                           [&] {
                             ops::matmul(stream, ops::MatmulBackward{y, x, w, dx, dw, {}});
                           },
                           kBudget);
                     }},
                    2 * flops});
  }
  return rows;
}

std::vector<Row> attention_rows(Context& context, Operands& operands) {
  std::vector<Row> rows;
  struct Case {
    std::int64_t B, T, C;
    int heads;
  };
  for (const auto& [B, T, C, heads] :
       {Case{12, 64, 128, 4}, Case{12, 256, 384, 6}, Case{2, 1024, 768, 12}}) {
    const Tensor qkv = operands({B, T, 3 * C}), dqkv = operands({B, T, 3 * C});
    const Tensor y = operands({B, T, C}), dy = operands({B, T, C}), lse = operands({B, heads, T});
    const Tensor scratch = operands({ops::attention_scratch_numel(T, context.compute->threads())});
    const double flops = 2.0 * static_cast<double>(B * T * T) * static_cast<double>(C);  // causal
    Stream& stream = *context.compute;
    const int H = heads;
    const std::string name = fmt::format("attention B={} T={} C={}", B, T, C);
    rows.push_back(
        {{name + ", forward",
          [=, &stream] {
            return time_calls(
                [&] {
                  ops::attention(
                      stream, ops::AttentionForward{
                                  .qkv = qkv, .y = y, .lse = lse, .scratch = scratch, .heads = H});
                },
                kBudget);
          }},
         flops});
    rows.push_back({{name + ", backward",
                     [=, &stream] {
                       return time_calls(
                           [&] {
                             ops::attention(stream, ops::AttentionBackward{.dy = dy,
                                                                           .qkv = qkv,
                                                                           .y = y,
                                                                           .lse = lse,
                                                                           .dqkv = dqkv,
                                                                           .scratch = scratch,
                                                                           .heads = H});
                           },
                           kBudget);
                     }},
                    2.5 * flops});
  }
  return rows;
}

std::vector<Row> elementwise_rows(Context& context, Operands& operands) {
  std::vector<Row> rows;
  Stream& stream = *context.compute;
  for (const std::int64_t n : {std::int64_t{1} << 16, std::int64_t{1} << 24}) {
    const Tensor x = operands({n}), y = operands({n}), m = operands({n}), v = operands({n});
    const char* size = n > (1 << 20) ? "in memory" : "in cache";
    const Tensor matrix = x.view({n / 512, 512}), out = y.view({n / 512, 512});
    const Tensor weight = operands({512}), mean = operands({n / 512}), rstd = operands({n / 512});
    const auto row = [&](const char* name, std::function<void()> work) {
      rows.push_back({{fmt::format("{}, {}", name, size),
                       [work = std::move(work)] { return time_calls(work, kBudget); }},
                      static_cast<double>(n)});
    };
    row("gelu forward", [=, &stream] { ops::gelu(stream, ops::GeluForward{x, y}); });
    row("gelu backward", [=, &stream] { ops::gelu(stream, ops::GeluBackward{m, x, y}); });
    row("layer_norm forward", [=, &stream] {
      ops::layer_norm(stream, ops::LayerNormForward{matrix, weight, {}, out, mean, rstd});
    });
    row("adamw", [=, &stream] {
      ops::adamw(stream, {.param = y, .grad = x, .m = m, .v = v, .lr = 1e-9, .beta2 = 0.99});
    });
  }
  return rows;
}

}  // namespace

void bench_operators(int threads, int rounds) {
  Context context(0, 1, threads);
  Operands operands(context);
  fmt::print("\noperators, {} thread{}\n", threads, threads == 1 ? "" : "s");
  print_rates(matmul_rows(context, operands), rounds, "GF/s", 1e9);
  print_rates(attention_rows(context, operands), rounds, "GF/s", 1e9);
  print_rates(elementwise_rows(context, operands), rounds, "ns/element", 0);
}

}  // namespace nanofsdp::train
