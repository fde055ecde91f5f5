#include "ops/layer_norm.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

// A stretch of columns whose sums stay in the first-level cache, and the rows added up in float32
// before they join the total: short sums of short sums lose fewer digits than one long sum.
constexpr std::int64_t kColumns = 1024;
constexpr std::int64_t kRows = 32;
constexpr std::int64_t kBlock = 65536;
using Columns = Eigen::Array<float, Eigen::Dynamic, 1, 0, kColumns, 1>;

void forward_row(const LayerNormForward& a, std::int64_t r) {
  const std::int64_t C = a.x.dim(1);
  const ConstRow x(a.x.f32() + r * C, C);
  const ConstRow weight(a.weight.f32(), C);
  // From the first element as a guess, mended twice by the mean of what is left: a constant row has
  // no variance at all, and neither a row far from zero nor an outlier costs the others digits.
  float mean = x[0];
  for (int pass = 0; pass < 2; ++pass) mean += (x - mean).sum() / static_cast<float>(C);
  const float var = (x - mean).square().sum() / static_cast<float>(C);
  const float rstd = 1 / std::sqrt(var + kLayerNormEps);

  Row y(a.y.f32() + r * C, C);
  if (a.bias.empty()) {
    y = (x - mean) * rstd * weight;
  } else {
    y = (x - mean) * rstd * weight + ConstRow(a.bias.f32(), C);
  }
  a.mean.f32()[r] = mean;
  a.rstd.f32()[r] = rstd;
}

//! [backward_row]
void backward_row(const LayerNormBackward& a, std::int64_t r) {
  const std::int64_t C = a.x.dim(1);
  const ConstRow x(a.x.f32() + r * C, C);
  const ConstRow dy(a.dy.f32() + r * C, C);
  const ConstRow weight(a.weight.f32(), C);
  const float mean = a.mean.f32()[r];
  const float rstd = a.rstd.f32()[r];
  const float mean_g = (dy * weight).sum() / static_cast<float>(C);
  const float mean_gn = (dy * weight * (x - mean)).sum() * rstd / static_cast<float>(C);
  Row(a.dx.f32() + r * C, C) = (dy * weight - mean_g - (x - mean) * (rstd * mean_gn)) * rstd;
}
//! [backward_row]

// Adds dweight and dbias of n <= kColumns columns from `column` on, over `rows` rows from `row` on.
void weight_columns(const LayerNormBackward& a, std::int64_t row, std::int64_t rows,
                    std::int64_t column, std::int64_t n) {
  const std::int64_t C = a.x.dim(1);
  const float* mean = a.mean.f32();
  const float* rstd = a.rstd.f32();
  Columns dweight(n);
  Columns dbias(n);
  for (std::int64_t first = row; first < row + rows; first += kRows) {
    dweight.setZero();
    dbias.setZero();
    for (std::int64_t r = first; r < std::min(row + rows, first + kRows); ++r) {
      const ConstRow x(a.x.f32() + r * C + column, n);
      const ConstRow dy(a.dy.f32() + r * C + column, n);
      dweight += dy * ((x - mean[r]) * rstd[r]);
      dbias += dy;
    }
    if (!a.dweight.empty()) Row(a.dweight.f32() + column, n) += dweight;
    if (!a.dbias.empty()) Row(a.dbias.f32() + column, n) += dbias;
  }
}

}  // namespace

void layer_norm(Stream& stream, const LayerNormForward& a) {
  const Require require(stream);
  require_rank("layer_norm: x", a.x, 2);
  const std::int64_t R = a.x.dim(0);
  const std::int64_t C = a.x.dim(1);
  require("layer_norm: x", a.x, {R, C});
  require.parameter("layer_norm: weight", a.weight, {C});
  if (!a.bias.empty()) require.parameter("layer_norm: bias", a.bias, {C});
  require("layer_norm: y", a.y, {R, C});
  require("layer_norm: mean", a.mean, {R});
  require("layer_norm: rstd", a.rstd, {R});
  if (a.x.empty()) return;
  if constexpr (kCuda) {
    if (on_cuda(stream)) return cuda::layer_norm(stream, a);
  }
  stream.enqueue([&stream, a, R, C] {
    stream.parallel_for(R, grain_of(C), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        prefetch(a.x.f32() + (r + 1) * C, C);  // of the next row
        forward_row(a, r);
      }
    });
  });
}

void layer_norm(Stream& stream, const LayerNormBackward& a) {
  const Require require(stream);
  require_rank("layer_norm: x", a.x, 2);
  const std::int64_t R = a.x.dim(0);
  const std::int64_t C = a.x.dim(1);
  require("layer_norm: x", a.x, {R, C});
  require("layer_norm: dy", a.dy, {R, C});
  require.parameter("layer_norm: weight", a.weight, {C});
  require("layer_norm: mean", a.mean, {R});
  require("layer_norm: rstd", a.rstd, {R});
  require("layer_norm: dx", a.dx, {R, C});
  if (!a.dweight.empty()) require("layer_norm: dweight", a.dweight, {C});
  if (!a.dbias.empty()) require("layer_norm: dbias", a.dbias, {C});
  if (a.x.empty()) return;
  if constexpr (kCuda) {
    if (on_cuda(stream)) return cuda::layer_norm(stream, a);
  }
  stream.enqueue([&stream, a, R, C] {
    // Block by block of rows that fits the second-level cache: first the weights, as dx may take
    // the place of dy, then dx. For the weights threads share the columns: every sum runs over the
    // rows in one order, whatever the number of threads.
    const std::int64_t block = std::max<std::int64_t>(1, kBlock / C / kRows) * kRows;
    for (std::int64_t first = 0; first < R; first += block) {
      const std::int64_t rows = std::min(block, R - first);
      stream.parallel_for(C, grain_of(rows), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; c += kColumns) {
          weight_columns(a, first, rows, c, std::min(kColumns, end - c));
        }
      });
      stream.parallel_for(rows, grain_of(C), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) backward_row(a, first + r);
      });
    }
  });
}

}  // namespace nanofsdp::ops
