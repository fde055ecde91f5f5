#include "ops/layer_norm.h"

#include <Eigen/Core>
#include <cmath>
#include <cstdint>

#include "ops/operands.h"

namespace nanofsdp::ops {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

// The rows are cut into this number of slices, and each slice has its own sums for dweight and
// dbias. The threads share the slices. The number of slices is fixed, so the order of the sums does
// not depend on the number of threads. Also, short sums of short sums lose fewer digits than one
// long sum.
constexpr std::int64_t kSlices = 16;

void forward_row(const LayerNormForward& a, std::int64_t r) {
  const std::int64_t C = a.x.dim(1);
  const ConstRow x(a.x.f32() + r * C, C);
  const ConstRow weight(a.weight.f32(), C);
  // The first element is a guess of the mean. It is corrected twice by the mean of the differences.
  // So a constant row has exactly zero variance, and rows far from zero, or with an outlier, lose
  // no digits.
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

// Adds the share of row r to dweight and dbias, and writes its dx.
void backward_row(const LayerNormBackward& a, std::int64_t r, Row dweight, Row dbias) {
  const std::int64_t C = a.x.dim(1);
  const ConstRow x(a.x.f32() + r * C, C);
  const ConstRow dy(a.dy.f32() + r * C, C);
  const ConstRow weight(a.weight.f32(), C);
  const float mean = a.mean.f32()[r], rstd = a.rstd.f32()[r];
  dweight += dy * ((x - mean) * rstd);  // before dx, which may be the same memory as dy
  dbias += dy;
  Row dx(a.dx.f32() + r * C, C);
  //! [backward_row]
  const float mean_g = (dy * weight).sum() / static_cast<float>(x.size());
  const float mean_gn = (dy * weight * (x - mean)).sum() * rstd / static_cast<float>(x.size());
  dx = (dy * weight - mean_g - (x - mean) * (rstd * mean_gn)) * rstd;
  //! [backward_row]
}

}  // namespace

void layer_norm(Stream& stream, const LayerNormForward& a) {
  const Require require(stream, a.x);
  require.rank("layer_norm: x", a.x, 2);
  const std::int64_t R = a.x.dim(0), C = a.x.dim(1);
  require.parameter("layer_norm: weight", a.weight, {C});
  if (!a.bias.empty()) require.parameter("layer_norm: bias", a.bias, {C});
  require("layer_norm: y", a.y, {R, C});
  require("layer_norm: mean", a.mean, {R}, DType::float32);
  require("layer_norm: rstd", a.rstd, {R}, DType::float32);
  if (a.x.empty()) return;
  enqueue_loop(stream, a, R, grain_of(C), [a, C](std::int64_t r) {
    prefetch(a.x.f32() + (r + 1) * C, C);  // prefetches the next row
    forward_row(a, r);
  });
}

void layer_norm(Stream& stream, const LayerNormBackward& a) {
  const Require require(stream, a.x);
  require.rank("layer_norm: x", a.x, 2);
  const std::int64_t R = a.x.dim(0), C = a.x.dim(1);
  require("layer_norm: dy", a.dy, {R, C});
  require.parameter("layer_norm: weight", a.weight, {C});
  require("layer_norm: mean", a.mean, {R}, DType::float32);
  require("layer_norm: rstd", a.rstd, {R}, DType::float32);
  require("layer_norm: dx", a.dx, {R, C});
  if (!a.dweight.empty()) require("layer_norm: dweight", a.dweight, {C}, DType::float32);
  if (!a.dbias.empty()) require("layer_norm: dbias", a.dbias, {C}, DType::float32);
  if (a.x.empty()) return;
  enqueue(stream, a, [&stream, a, R, C] {
    Eigen::ArrayXXf dweight = Eigen::ArrayXXf::Zero(C, kSlices), dbias = dweight;
    stream.parallel_for(kSlices, grain_of(R * C / kSlices), [&](std::int64_t s) {
      const Row own_dweight(&dweight(0, s), C), own_dbias(&dbias(0, s), C);
      for (std::int64_t r = R * s / kSlices; r < R * (s + 1) / kSlices; ++r) {
        backward_row(a, r, own_dweight, own_dbias);
      }
    });
    for (std::int64_t s = 0; s < kSlices; ++s) {
      if (!a.dweight.empty()) Row(a.dweight.f32(), C) += dweight.col(s);
      if (!a.dbias.empty()) Row(a.dbias.f32(), C) += dbias.col(s);
    }
  });
}

}  // namespace nanofsdp::ops
