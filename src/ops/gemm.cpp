#include "ops/gemm.h"

// Threads are ours, not Eigen's. And no special path for tiny products: it sums in an order that
// depends on the address of the result.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 1
#include <Eigen/Core>
#include <algorithm>

namespace nanofsdp::ops {
namespace {

// Below about a microsecond of work (multiply-adds) a second thread costs more than it brings.
constexpr std::int64_t kGrain = 1 << 18;

// Columns of C that are made at once. Eigen cuts the depth in blocks and goes over all of C for
// each: a result as wide as a vocabulary would be read from memory and written back every time.
constexpr std::int64_t kPanel = 4096;

using Strided = Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                           Eigen::Unaligned, Eigen::OuterStride<>>;

Strided map(const Matrix& m) { return {m.data, m.rows, m.cols, Eigen::OuterStride<>(m.stride)}; }

// Rows, or columns, [begin, end) of C.
void rows(Form form, const Matrix& a, const Matrix& b, const Matrix& c, Write write,
          std::int64_t begin, std::int64_t end) {
  gemm(form, form == Form::tn ? a.col_range(begin, end) : a.row_range(begin, end), b,
       c.row_range(begin, end), write);
}

void columns(Form form, const Matrix& a, const Matrix& b, const Matrix& c, Write write,
             std::int64_t begin, std::int64_t end) {
  gemm(form, a, form == Form::nt ? b.row_range(begin, end) : b.col_range(begin, end),
       c.col_range(begin, end), write);
}

}  // namespace

void gemm(Form form, const Matrix& a, const Matrix& b, const Matrix& c, Write write) {
  if (c.cols > kPanel) {
    for (std::int64_t begin = 0; begin < c.cols; begin += kPanel) {
      columns(form, a, b, c, write, begin, std::min(c.cols, begin + kPanel));
    }
    return;
  }
  Strided out = map(c);
  if (write == Write::assign) out.setZero();  // what Eigen's own assignment does first
  switch (form) {
    case Form::nn:
      out.noalias() += map(a) * map(b);
      break;
    case Form::nt:
      out.noalias() += map(a) * map(b).transpose();
      break;
    case Form::tn:
      out.noalias() += map(a).transpose() * map(b);
      break;
  }
}

void gemm(Stream& stream, Form form, const Matrix& a, const Matrix& b, const Matrix& c,
          Write write) {
  // Rows, unless C is very wide. Cuts lie where the kernel's register tiles end.
  const bool by_rows = c.cols <= 4 * c.rows;
  const std::int64_t tile = by_rows ? 4 : 16;
  const std::int64_t n = by_rows ? c.rows : c.cols;
  const std::int64_t depth = form == Form::tn ? a.rows : a.cols;
  const std::int64_t tile_work = std::max<std::int64_t>(tile * (c.rows + c.cols - n) * depth, 1);
  stream.parallel_for((n + tile - 1) / tile, (kGrain + tile_work - 1) / tile_work,
                      [&](std::int64_t first, std::int64_t last) {
                        (by_rows ? rows : columns)(form, a, b, c, write, first * tile,
                                                   std::min(n, last * tile));
                      });
}

}  // namespace nanofsdp::ops
