#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/buffer.h"
#include "base/context.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "bench/numbers.h"
#include "ops/adamw.h"
#include "ops/attention.h"
#include "ops/copy_chunks.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/layer_norm.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace nanofsdp::bench {
namespace {

// Allocates tensors that live as long as the benchmark runs. Float32 tensors have random numbers,
// others zeros.
class Operands {
 public:
  explicit Operands(Context& context) : context_(context) {}
  Tensor operator()(Shape shape, DType dtype = DType::float32) {
    buffers_.push_back(context_.buffer(MemoryClass::activations, shape.numel(), dtype));
    const Tensor tensor = buffers_.back().tensor(shape, dtype);
    if (dtype == DType::float32) generator_.uniform(tensor.span<float>(), -1, 1);
    return tensor;
  }

 private:
  Context& context_;
  Generator generator_{1337};
  std::vector<Buffer> buffers_;
};

using Rows = std::vector<Candidate>;
constexpr const char* kPeak = "peak";

// The limit of arithmetic.
Candidate peak(Stream& stream) {
  return calls(kPeak, 1e-9 * multiply_and_add(stream), "GF/s", "",
               [&stream] { multiply_and_add(stream); });
}

// The limit of memory, in three mixes of reads and writes.
void read(Stream& stream, const Tensor& x) {
  stream.parallel_for(x.numel() / kLanes, 1024, [&](std::int64_t begin, std::int64_t end) {
    Packs sums{};
    const float *at = x.f32() + begin * kLanes, *last = x.f32() + end * kLanes;
    while (at < last) {
      for (Pack& sum : sums) {
        Pack pack;
        std::memcpy(&pack, at, sizeof pack);
        at += sizeof pack / sizeof *at;
        sum += pack;
      }
    }
    touch(sums);
  });
}

void triad(Stream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  stream.parallel_for(
      out.numel(), 1024,
      [a = a.f32(), b = b.f32(), out = out.f32()](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) out[i] = a[i] + 2 * b[i];
      });
}

void update(Stream& stream, const Tensor& a, const Tensor& x) {
  stream.parallel_for(x.numel(), 1024,
                      [a = a.f32(), x = x.f32()](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i) x[i] = a[i] - x[i];
                      });
}

// The sizes of a model, which decide the sizes of its products and of attention. The last one has
// rows as long as GPT-2's.
struct Model {
  const char* name;
  std::int64_t B, T, C, V;
  int heads;
};
constexpr std::array kModels = {
    Model{"4 x 128", 12, 64, 128, 65, 4}, Model{"6 x 384", 12, 256, 384, 65, 6},
    Model{"124M", 4, 64, 768, 50304, 12}, Model{"124M, T = 1024", 1, 1024, 768, 50304, 12}};

Rows arithmetic(Stream& stream, Operands& operands, const Model& model) {
  Rows rows = {peak(stream)};
  // The rate of an operator's products: the operations that it states as its cost, divided by its
  // time.
  const auto add = [&]<class A>(const std::string& name, void (*call)(Stream&, const A&),
                                const A& a) {
    const Cost cost = ops::cost(a);
    rows.push_back(calls(name, 1e-9 * (cost.products + cost.attention), "GF/s", kPeak,
                         [=, &stream] { call(stream, a); }));
  };
  const std::int64_t B = model.B, T = model.T, C = model.C;
  const auto product = [&](const std::string& name, std::int64_t M, std::int64_t K) {
    const Tensor x = operands({B * T, K}), w = operands({M, K}), y = operands({B * T, M});
    const Tensor dx = operands({B * T, K}), dw = operands({M, K});
    add(name + ", forward", ops::matmul, ops::MatmulForward{x, w, {}, y});
    add(name + ", backward", ops::matmul, ops::MatmulBackward{y, x, w, dx, dw, {}});
  };
  product("c_attn", 3 * C, C);
  product("attn.c_proj", C, C);
  product("c_fc", 4 * C, C);
  product("mlp.c_proj", C, 4 * C);
  product("lm_head", model.V, C);
  const Tensor qkv = operands({B, T, 3 * C}), dqkv = operands({B, T, 3 * C});
  const Tensor y = operands({B, T, C}), dy = operands({B, T, C});
  const Tensor lse = operands({B, model.heads, T});
  const Tensor scratch = operands({ops::attention_scratch_numel(T, stream.threads())});
  const auto part = [&](const Tensor& of, int i) { return ops::Heads{of, i * C, model.heads}; };
  const ops::Heads q = part(qkv, 0), k = part(qkv, 1), v = part(qkv, 2);
  add("attention, forward", ops::attention, ops::AttentionForward{q, k, v, y, lse, scratch});
  add("attention, backward", ops::attention,
      ops::AttentionBackward{dy, q, k, v, y, lse, part(dqkv, 0), part(dqkv, 1), part(dqkv, 2),
                             scratch});
  return rows;
}

// The rate at which an operator reads and writes memory, by its stated cost. A cache also fetches
// the bytes that are overwritten, so they count.
Candidate moved(const std::string& name, const std::string& limit, const Cost& cost,
                std::function<void()> call) {
  return calls(name, 1e-9 * (cost.read + cost.written + cost.overwritten), "GB/s", limit,
               std::move(call));
}

Rows elementwise(Stream& stream, Operands& operands, std::int64_t n) {
  const Tensor x = operands({n}), y = operands({n}), m = operands({n}), v = operands({n});
  ops::fill(stream, {v, 1});
  const std::int64_t C = 512, R = n / C;
  const Tensor matrix = x.view({R, C}), dy = m.view({R, C}), out = y.view({R, C});
  const Tensor weight = operands({C}), mean = operands({R}), rstd = operands({R});
  const Tensor dweight = operands({C});
  const std::int64_t V = 16384, N = n / V, chunk = V - 64;  // rows of 64 KB
  const Tensor logits = operands({N, V}), target = operands({N}, DType::int32);
  const Tensor loss = operands({N}), lse = operands({N});
  const Tensor half = operands({n}, DType::bfloat16), sum = operands({1}, DType::float64);
  Rows rows = {moved("read", "", moves({x}, {}), [=, &stream] { read(stream, x); }),
               moved("triad", "", moves({x, m}, {y}), [=, &stream] { triad(stream, x, m, y); }),
               moved("update", "", moves({x, y}, {y}), [=, &stream] { update(stream, x, y); })};
  const auto add = [&]<class A>(const char* name, const char* limit,
                                void (*call)(Stream&, const A&), const A& a) {
    rows.push_back(moved(name, limit, ops::cost(a), [=, &stream] { call(stream, a); }));
  };
  using namespace ops;
  add("squared_norm", "read", squared_norm, SquaredNorm{x, sum});
  add("cross_entropy forward", "read", cross_entropy,
      CrossEntropyForward{x.view({N, V}), target, loss, lse, {}});
  add("cross_entropy backward", "update", cross_entropy,
      CrossEntropyBackward{logits, target, lse, 1});
  add("gelu forward", "triad", gelu, GeluForward{x, y});
  add("gelu backward", "triad", gelu, GeluBackward{m, x, y});
  add("layer_norm forward", "triad", layer_norm,
      LayerNormForward{matrix, weight, {}, out, mean, rstd});
  add("layer_norm backward", "triad", layer_norm,
      LayerNormBackward{dy, matrix, weight, mean, rstd, out, dweight});
  add("add", "triad", ops::add, Add{x, m, y});
  add("cast to bfloat16", "triad", cast, Cast{x, half});
  add("cast to float32", "triad", cast, Cast{half, y});
  add("copy", "", copy, Copy{x, y});
  const Tensor part = y.slice(0, N * chunk), halves = half.slice(0, N * chunk);
  add("copy_chunks", "copy", copy_chunks, CopyChunks{x, part, 0, chunk, V});
  add("copy_chunks, rounds", "copy", copy_chunks, CopyChunks{x, halves, 0, chunk, V});
  add("copy_chunks, widens", "copy", copy_chunks, CopyChunks{half, part, 0, chunk, V});
  add("accumulate", "update", accumulate, Accumulate{x, y});
  add("scale", "update", scale, Scale{y, -1});
  add("dropout", "update", dropout, Dropout{out, out, 0.2f});
  add("adamw", "update", adamw,
      AdamW{.param = y, .grad = x, .m = m, .v = v, .lr = 1e-9, .beta2 = 0.99});
  return rows;
}

}  // namespace

double multiply_and_add(Stream& stream) {
  constexpr std::int64_t kRounds = 1 << 20;
  stream.parallel_for(stream.threads(), 1, [](std::int64_t, std::int64_t) {
    const Pack factor = Pack{} + 0.999f, addend = Pack{} + 0.001f;
    Packs packs{};
    touch(packs);
    for (std::int64_t round = 0; round < kRounds; ++round)
      for (Pack& pack : packs) pack = pack * factor + addend;
    touch(packs);
  });
  return 2.0 * kRounds * kLanes * stream.threads();
}

double peak_flops(Stream& stream) {
  if (stream.device() != Device::cpu) return 0;
  double best = 0;
  for (int i = 0; i < 10; ++i) {
    const double begin = now_seconds(), flops = multiply_and_add(stream);
    best = std::max(best, flops / (now_seconds() - begin));
  }
  return best;
}

void add(std::span<float> sum, std::span<const float> x) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

Rates bench_operators(const BenchOptions& options, int threads) {
  Context context(0, 1, threads);
  Rates rates;
  const std::string width = plural(threads, "thread");
  for (const Model& model : kModels) {
    Operands operands(context);
    rates.merge(print_race(options, fmt::format("arithmetic, {}, {}", width, model.name),
                           arithmetic(*context.compute, operands, model)));
  }
  for (const auto& [where, n] : {std::pair{"cache", 1 << 16}, std::pair{"memory", 1 << 24}}) {
    Operands operands(context);
    rates.merge(print_race(options, fmt::format("elementwise, {}, in {}", width, where),
                           elementwise(*context.compute, operands, n)));
  }
  return rates;
}

}  // namespace nanofsdp::bench
