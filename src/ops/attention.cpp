#include "ops/attention.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "ops/exp.h"
#include "ops/gemm.h"
#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

// Rows of scores start on a cache line and are worked on in whole lines: no leftovers, which would
// go one by one.
constexpr std::int64_t kLine = 64 / sizeof(float);

std::int64_t whole_lines(std::int64_t n) { return (n + kLine - 1) / kLine * kLine; }

// Rows of a block of queries. Its scores stay in the L2 cache; two blocks instead of one at T = 64
// save a quarter of the scores.
std::int64_t query_block(std::int64_t T) { return T <= 64 ? 32 : 64; }

std::int64_t block_numel(std::int64_t T) { return query_block(T) * whole_lines(T); }

using Lines = Eigen::Map<Eigen::ArrayXf, Eigen::Aligned64>;
using Row = Eigen::Map<const Eigen::ArrayXf>;

// The numbers of one call; its heads are counted through all sequences.
struct Layout {
  std::int64_t B = 0, T = 0, C = 0, H = 0, D = 0, first = 0;
  float scale = 1;  // 1 / sqrt(D)
  std::uint32_t threshold = 0;
  float survivor = 1;  // 1 / (1 - dropout)

  // One head's [rows, D] in a tensor [B, rows, parts * C].
  Matrix of(const Tensor& x, std::int64_t head, int part = 0) const {
    const std::int64_t rows = x.dim(1), width = x.dim(2);
    return {x.f32() + head / H * rows * width + part * C + head % H * D, rows, D, width};
  }

  // Dropout of row i of P, or of its derivative; `key` is the sequence's.
  void drop(std::uint64_t key, std::int64_t head, std::int64_t i, float* row) const {
    if (threshold == 0) return;
    const auto first = static_cast<std::uint32_t>((head % H * T + i) * T);
    for (std::int64_t j = 0; j <= i; ++j) {
      const bool kept = keep(key, first + static_cast<std::uint32_t>(j), threshold);
      row[j] *= kept ? survivor : 0.0f;
    }
  }
};

// Row i of exp(scale * S - shift): columns above the diagonal become 0, up to `cols` or the end of
// the diagonal's line.
Lines exp_row(float* row, std::int64_t i, std::int64_t cols, float scale, float shift) {
  Lines valid(row, whole_lines(i + 1));
  for (float& x : valid) x = exponential(x * scale - shift);
  std::fill(row + i + 1, row + std::max<std::int64_t>(cols, valid.size()), 0.0f);
  return valid;
}

void forward(const AttentionForward& a, const Layout& l, std::int64_t head, float* scratch) {
  const Matrix q = l.of(a.qkv, head, 0), k = l.of(a.qkv, head, 1);
  const Matrix v = l.of(a.qkv, head, 2), y = l.of(a.y, head);
  float* lse = a.lse.f32() + head * y.rows;
  const std::uint64_t key = row_key(a.key, head / l.H);
  const std::int64_t block = query_block(l.T);

  for (std::int64_t begin = l.first; begin < l.T; begin += block) {
    const std::int64_t end = std::min(l.T, begin + block);
    const Matrix p{scratch, end - begin, end, whole_lines(l.T)};
    gemm(Form::nt, q.row_range(begin, end), k.row_range(0, end), p, Write::assign);
    for (std::int64_t i = begin; i < end; ++i) {
      float* row = p.data + (i - begin) * p.stride;
      const float shift = l.scale * Row(row, i + 1).maxCoeff();
      Lines weights = exp_row(row, i, p.cols, l.scale, shift);
      const float sum = weights.sum();
      lse[i - l.first] = shift + std::log(sum);
      weights *= 1 / sum;
      l.drop(key, head, i, row);
    }
    const Matrix y_block = y.row_range(begin - l.first, end - l.first);
    gemm(Form::nn, p, v.row_range(0, end), y_block, Write::assign);
  }
}

void backward(const AttentionBackward& a, const Layout& l, std::int64_t head, float* scratch) {
  const Matrix q = l.of(a.qkv, head, 0), k = l.of(a.qkv, head, 1), v = l.of(a.qkv, head, 2);
  const Matrix dq = l.of(a.dqkv, head, 0), dk = l.of(a.dqkv, head, 1), dv = l.of(a.dqkv, head, 2);
  const Matrix y = l.of(a.y, head), dy = l.of(a.dy, head);
  const std::uint64_t key = row_key(a.key, head / l.H);
  const std::int64_t block = query_block(l.T);

  // Last block first: it sees every key, so it writes dK and dV and the others add to them.
  for (std::int64_t end = l.T, begin; end > 0; end = begin) {
    begin = (end - 1) / block * block;
    const Write write = end == l.T ? Write::assign : Write::add;
    const Matrix p{scratch, end - begin, end, whole_lines(l.T)};
    const Matrix ds{scratch + block_numel(l.T), p.rows, p.cols, p.stride};
    const Matrix q_block = q.row_range(begin, end), dy_block = dy.row_range(begin, end);
    gemm(Form::nt, q_block, k.row_range(0, end), p, Write::assign);
    gemm(Form::nt, dy_block, v.row_range(0, end), ds, Write::assign);
    for (std::int64_t i = begin; i < end; ++i) {
      float* p_row = p.data + (i - begin) * p.stride;
      float* ds_row = ds.data + (i - begin) * ds.stride;
      const float delta = (Row(dy.data + i * l.C, l.D) * Row(y.data + i * l.C, l.D)).sum();
      exp_row(p_row, i, p.cols, l.scale, a.lse.f32()[head * l.T + i]);
      l.drop(key, head, i, ds_row);
      Lines weights(p_row, whole_lines(p.cols)), gradients(ds_row, weights.size());
      gradients = weights * (gradients - delta) * l.scale;
      l.drop(key, head, i, p_row);
    }
    gemm(Form::nn, ds, k.row_range(0, end), dq.row_range(begin, end), Write::assign);
    gemm(Form::tn, ds, q_block, dk.row_range(0, end), write);
    gemm(Form::tn, p, dy_block, dv.row_range(0, end), write);
  }
}

// Checks what both directions share.
template <class Operands>
Layout layout_of(const Stream& stream, const Operands& a) {
  require_rank("attention: qkv", a.qkv, 3);
  Layout l{.B = a.qkv.dim(0), .T = a.qkv.dim(1), .C = a.qkv.dim(2) / 3, .H = a.heads};
  NANOFSDP_CHECK_SHAPE(l.H > 0 && a.qkv.dim(2) % (3 * l.H) == 0, .what = "attention: heads",
                       .expected = fmt::format("a divisor of C = {} / 3", a.qkv.dim(2)),
                       .got = fmt::format("{}", l.H));
  if constexpr (requires { a.first; }) l.first = a.first;
  NANOFSDP_CHECK_SHAPE(l.first >= 0 && l.first <= l.T, .what = "attention: first",
                       .expected = fmt::format("a position in [0, {}]", l.T),
                       .got = fmt::to_string(l.first));
  l.D = l.C / l.H;
  l.scale = 1 / std::sqrt(static_cast<float>(l.D));
  l.threshold = drop_threshold(a.dropout);
  l.survivor = 1 / (1 - a.dropout);
  const Require require(stream);
  require("attention: qkv", a.qkv, {l.B, l.T, 3 * l.C});
  require("attention: y", a.y, {l.B, l.T - l.first, l.C});
  require("attention: lse", a.lse, {l.B, l.H, l.T - l.first});
  const std::int64_t scratch = attention_scratch_numel(l.T, stream.threads());
  require("attention: scratch", a.scratch, a.scratch.shape());  // of any shape, if large enough
  NANOFSDP_CHECK_SHAPE(a.scratch.numel() >= scratch, .what = "attention: scratch",
                       .expected = fmt::format("at least {} elements", scratch),
                       .got = fmt::format("{}", a.scratch.numel()));
  return l;
}

// Shares sequences and heads between the threads; each thread has its own slice of scratch.
template <class Operands, class Body>
void for_each_head(Stream& stream, const Operands& a, const Layout& l, const Body& body) {
  auto* scratch =
      reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(a.scratch.f32()) + 63) / 64 * 64);
  const std::int64_t heads = l.T > 0 ? l.B * l.H : 0;
  const std::int64_t slices = std::min<std::int64_t>(stream.threads(), heads);
  stream.parallel_for(slices, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t slice = first; slice < last; ++slice) {
      float* own = scratch + slice * 2 * block_numel(l.T);
      const std::int64_t begin = heads * slice / slices, end = heads * (slice + 1) / slices;
      for (std::int64_t head = begin; head < end; ++head) body(a, l, head, own);
    }
  });
}

}  // namespace

std::int64_t attention_scratch_numel(std::int64_t T, int threads) {
  return kLine + threads * 2 * block_numel(T);
}

void attention(Stream& stream, const AttentionForward& a) {
  const Layout l = layout_of(stream, a);
  if constexpr (kCuda) {
    if (on_cuda(stream)) return cuda::attention(stream, a);
  }
  stream.enqueue([&stream, a, l] { for_each_head(stream, a, l, forward); });
}

void attention(Stream& stream, const AttentionBackward& a) {
  const Layout l = layout_of(stream, a);
  const Require require(stream);
  require("attention: dy", a.dy, {l.B, l.T, l.C});
  require("attention: dqkv", a.dqkv, {l.B, l.T, 3 * l.C});
  if constexpr (kCuda) {
    if (on_cuda(stream)) return cuda::attention(stream, a);
  }
  stream.enqueue([&stream, a, l] { for_each_head(stream, a, l, backward); });
}

}  // namespace nanofsdp::ops
