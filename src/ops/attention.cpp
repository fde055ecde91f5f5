#include "ops/attention.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/exp.h"
#include "ops/gemm.h"
#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

// Each row of scores starts at a cache line, and loops work on whole lines, because a loop would
// compute the rest of a line element by element.
constexpr std::int64_t kLine = 64 / sizeof(float);

std::int64_t whole_lines(std::int64_t n) { return (n + kLine - 1) / kLine * kLine; }

// Rows of a block of queries. The scores of a block stay in the L2 cache. At T = 64, two blocks
// instead of one save a quarter of the scores.
std::int64_t query_block(std::int64_t T) { return T <= 64 ? 32 : 64; }

std::int64_t block_numel(std::int64_t T) { return query_block(T) * whole_lines(T); }

using Lines = Eigen::Map<Eigen::ArrayXf, Eigen::Aligned64>;
using Row = Eigen::Map<const Eigen::ArrayXf>;

// The numbers of one call. Query heads are counted through all sequences; `group` query heads read
// the same key/value head.
struct Layout {
  std::int64_t B = 0, T = 0, C = 0, H = 0, D = 0, group = 1, first = 0;
  float scale = 1;  // 1 / sqrt(D)
  std::uint32_t threshold = 0;
  float survivor = 1;  // 1 / (1 - dropout)

  // The [rows, D] of x that query head `head` uses. Heads of one group use the same keys and
  // values.
  Matrix of(const Heads& x, std::int64_t head) const {
    const std::int64_t rows = x.rows.dim(1), width = x.rows.dim(2);
    const std::int64_t b = head / H, h = head % H / (H / x.heads);
    return {x.rows.f32() + b * rows * width + x.first + h * D, rows, D, width};
  }

  // Applies dropout to row i of P, or of P's derivative.
  // @param key the key of the sequence
  void drop(std::uint64_t key, std::int64_t head, std::int64_t i, float* row) const {
    if (threshold == 0) return;
    const auto first = static_cast<std::uint32_t>((head % H * T + i) * T);
    for (std::int64_t j = 0; j <= i; ++j)
      row[j] *= keep(key, first + static_cast<std::uint32_t>(j), threshold) ? survivor : 0.0f;
  }
};

// Row i of exp(scale * S - shift). Columns above the diagonal become 0, up to `cols` or the end of
// the cache line that holds the diagonal.
Lines exp_row(float* row, std::int64_t i, std::int64_t cols, float scale, float shift) {
  Lines valid(row, whole_lines(i + 1));
  for (float& x : valid) x = exponential(x * scale - shift);
  std::fill(row + i + 1, row + std::max<std::int64_t>(cols, valid.size()), 0.0f);
  return valid;
}

void forward(const AttentionForward& a, const Layout& l, std::int64_t head, float* scratch) {
  const Matrix q = l.of(a.q, head), k = l.of(a.k, head), v = l.of(a.v, head);
  const Matrix y = l.of({a.y, 0, a.q.heads}, head);
  float* lse = a.lse.f32() + head * y.rows;
  const std::uint64_t key = row_key(a.key, head / l.H);
  const std::int64_t block = query_block(l.T);

  for (std::int64_t begin = l.first; begin < l.T; begin += block) {
    const std::int64_t end = std::min(l.T, begin + block);
    //! [rows]
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
    //! [rows]
  }
}

void backward(const AttentionBackward& a, const Layout& l, std::int64_t head, float* scratch) {
  const Matrix q = l.of(a.q, head), k = l.of(a.k, head), v = l.of(a.v, head);
  const Matrix dq = l.of(a.dq, head), dk = l.of(a.dk, head), dv = l.of(a.dv, head);
  const Matrix y = l.of({a.y, 0, a.q.heads}, head), dy = l.of({a.dy, 0, a.q.heads}, head);
  const std::uint64_t key = row_key(a.key, head / l.H);
  const std::int64_t block = query_block(l.T);

  // The last block comes first, because it sees every key. In that block the first head of the
  // group writes dK and dV. The other blocks add to them, and so do the other heads of the group.
  for (std::int64_t end = l.T, begin; end > 0; end = begin) {
    begin = (end - 1) / block * block;
    const Write write = end == l.T && head % l.group == 0 ? Write::assign : Write::add;
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

// Checks the operands that forward and backward share.
template <class Operands>
Layout layout_of(const Stream& stream, const Operands& a) {
  const Require require(stream, a.y);
  require.rank("attention: y", a.y, 3);
  // The numbers of heads that the shapes are computed with: at least 1, and a divisor. If the
  // operands do not fit them, the checks below refuse the operands.
  const int H = std::max(a.q.heads, 1), H_kv = std::gcd(H, a.k.heads);
  const std::int64_t B = a.q.rows.dim(0), T = a.q.rows.dim(1), C = a.y.dim(2), D = C / H;
  Layout l{B, T, C, H, D, H / H_kv};
  require.heads("attention: q", a.q, {B, T, H, D});
  require.heads("attention: k", a.k, {B, T, H_kv, D});
  require.heads("attention: v", a.v, {B, T, H_kv, D});
  if constexpr (requires { a.first; }) l.first = a.first;
  NANOFSDP_CHECK_SHAPE(l.first >= 0 && l.first <= T, .what = "attention: first",
                       .expected = fmt::format("a position in [0, {}]", T),
                       .got = fmt::to_string(l.first));
  l.scale = 1 / std::sqrt(static_cast<float>(l.D));
  l.threshold = drop_threshold(a.dropout);
  l.survivor = 1 / (1 - a.dropout);
  require("attention: y", a.y, {B, T - l.first, H * D});
  require("attention: lse", a.lse, {B, H, T - l.first}, DType::float32);
  require.at_least("attention: scratch", a.scratch, attention_scratch_numel(T, stream.threads()));
  return l;
}

// Enqueues the operator. The threads share the groups of heads of all sequences, and each thread
// has its own slice of scratch.
template <class Operands, class Body>
void enqueue_heads(Stream& stream, const Operands& a, const Layout& l, const Body& body) {
  enqueue(stream, a, [&stream, a, l, body] {
    const auto aligned = (reinterpret_cast<std::uintptr_t>(a.scratch.f32()) + 63) / 64 * 64;
    auto* scratch = reinterpret_cast<float*>(aligned);
    const std::int64_t groups = l.T > 0 ? l.B * l.H / l.group : 0;
    const std::int64_t slices = std::min<std::int64_t>(stream.threads(), groups);
    stream.parallel_for(slices, 1, [&](std::int64_t slice) {
      float* own = scratch + slice * 2 * block_numel(l.T);
      const std::int64_t begin = groups * slice / slices, end = groups * (slice + 1) / slices;
      for (std::int64_t h = begin * l.group; h < end * l.group; ++h) body(a, l, h, own);
    });
  });
}

}  // namespace

std::int64_t attention_scratch_numel(std::int64_t T, int threads) {
  return kLine + threads * 2 * block_numel(T);
}

void attention(Stream& stream, const AttentionForward& a) {
  enqueue_heads(stream, a, layout_of(stream, a), forward);
}

void attention(Stream& stream, const AttentionBackward& a) {
  const Layout l = layout_of(stream, a);
  const Require require(stream, a.y);
  require("attention: dy", a.dy, a.y.shape());
  require.heads("attention: dq", a.dq, {l.B, l.T, l.H, l.D});
  require.heads("attention: dk", a.dk, {l.B, l.T, a.k.heads, l.D});
  require.heads("attention: dv", a.dv, {l.B, l.T, a.k.heads, l.D});
  enqueue_heads(stream, a, l, backward);
}

}  // namespace nanofsdp::ops
