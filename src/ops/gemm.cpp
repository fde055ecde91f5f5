#include "ops/gemm.h"

#include <algorithm>
#include <memory>

#include "ops/micro_kernel.h"

namespace nanofsdp::ops {
namespace {

// For less work than about a microsecond (counted in multiply-adds), a second thread costs more
// than it saves.
constexpr std::int64_t kGrain = 1 << 18;

// Rows of A that are packed together: kDepth columns of them fit in an L2 cache of 1 MB.
constexpr std::int64_t kBlock = 64 * kRows;

// The part of A that rows [begin, end) of C need, and the part of B that columns [begin, end) need.
Matrix for_rows(Form form, const Matrix& a, std::int64_t begin, std::int64_t end) {
  return form == Form::tn ? a.col_range(begin, end) : a.row_range(begin, end);
}
Matrix for_columns(Form form, const Matrix& b, std::int64_t begin, std::int64_t end) {
  return form == Form::nt ? b.row_range(begin, end) : b.col_range(begin, end);
}

// Packs A [rows, depth] row by row, kStride apart, and writes zeros behind each row.
void pack_rows(const Matrix& a, float* to) {
  for (std::int64_t i = 0; i < a.rows; ++i, to += kStride) {
    std::copy_n(a.data + i * a.stride, a.cols, to);
    std::fill_n(to + a.cols, kLanes, 0.0f);
  }
}

// Packs A [depth, rows] as slabs [depth, kRows], kRows * kStride apart.
void pack_slabs(const Matrix& a, float* to) {
  for (std::int64_t k = 0; k < a.rows; ++k, to += kRows) {
    const float* row = a.data + k * a.stride;
    std::int64_t i = 0;
    for (; i + kRows <= a.cols; i += kRows)
      std::memcpy(to + i * kStride, row + i, kRows * sizeof(float));
    std::copy(row + i, row + a.cols, to + i * kStride);
  }
}

// Packs B [depth, cols] row by row, kCols apart, and writes zeros beside the rows.
void pack_strip(const Matrix& b, float* to) {
  for (std::int64_t k = 0; k < b.rows; ++k, to += kCols) {
    const float* row = b.data + k * b.stride;
    if (b.cols == kCols) {
      std::memcpy(to, row, kCols * sizeof(float));
    } else {
      std::fill(std::copy_n(row, b.cols, to), to + kCols, 0.0f);
    }
  }
}

// Packs B [kCols, depth], transposed, in the same form.
void pack_turned(const Matrix& b, float* to) {
  for (std::int64_t j = 0; j < kCols; j += kLanes, to += kLanes) {
    const float* from = b.data + j * b.stride;
    std::int64_t k = 0;
    for (; k + kLanes <= b.cols; k += kLanes) {
      Vector rows[kLanes];
      NANOFSDP_UNROLL
      for (int r = 0; r < kLanes; ++r) rows[r] = load(from + r * b.stride + k);
      turn(rows, Lanes());
      NANOFSDP_UNROLL
      for (int r = 0; r < kLanes; ++r) store(to + (k + r) * kCols, rows[r]);
    }
    for (; k < b.cols; ++k) {
      for (int r = 0; r < kLanes; ++r) to[k * kCols + r] = from[r * b.stride + k];
    }
  }
}

// C = A B, or C += A B, for a block of rows and a part of the depth. A strip of B is packed once
// and stays in L1 while all rows of A are used. The rows of A are packed at the first strip, tile
// by tile, and each tile prefetches the rows of the next tile. At later strips all tiles together
// prefetch the next strip. If the columns of A B^T do not fill the last strip, each of them is
// computed alone, from B's rows where they lie.
void block(Form form, const Matrix& a, const Matrix& b, const Matrix& c, bool add, float* packed) {
  const std::int64_t depth = form == Form::tn ? a.rows : a.cols;
  const std::int64_t steps = (depth + kStep - 1) / kStep, tiles = (c.rows + kRows - 1) / kRows;
  if (form == Form::tn) pack_slabs(a, packed);  // all at once, because a row goes through all slabs
  alignas(64) float strip[kDepth * kCols];
  for (std::int64_t j = 0, cols; j < c.cols; j += cols) {
    cols = std::min<std::int64_t>(kCols, c.cols - j);
    const bool column = form == Form::nt && cols < kCols;
    if (column) cols = 1;
    const auto pack = form != Form::nt ? pack_strip : column ? pack_rows : pack_turned;
    pack(for_columns(form, b, j, j + cols), strip);
    Ahead ahead(for_columns(form, b, j + cols, std::min(c.cols, j + 2 * cols)), tiles * steps);
    for (std::int64_t i = 0, next; i < c.rows; i = next) {
      next = std::min(c.rows, i + kRows);
      if (j == 0 && form != Form::tn) {
        pack_rows(a.row_range(i, next), packed + i * kStride);
        ahead = Ahead(a.row_range(next, std::min(c.rows, next + kRows)), steps);
      }
      float* corner = c.data + i * c.stride + j;
      const Tile tile{packed + i * kStride, strip, depth, corner, c.stride, cols, add, ahead};
      with_rows(next - i, [&](auto rows) {
        if (column) {
          make_column<rows>(tile);
        } else if (form == Form::tn) {
          make_tile<rows, 1, kRows>(tile);
        } else {
          make_tile<rows, kStride, 1>(tile);
        }
      });
    }
  }
}

}  // namespace

void gemm(Form form, const Matrix& a, const Matrix& b, const Matrix& c, Write write) {
  const std::int64_t depth = form == Form::tn ? a.rows : a.cols;
  // All parts of the depth are equally long, and a multiple of a vector register.
  const std::int64_t stretches = std::max<std::int64_t>((depth + kDepth - 1) / kDepth, 1);
  const std::int64_t stretch = (depth + stretches * kLanes - 1) / (stretches * kLanes) * kLanes;
  const std::int64_t most = std::min(kBlock, c.rows + kRows - 1);
  const std::unique_ptr<float[]> packed(new float[most * kStride]);
  for (std::int64_t i = 0, i_end; i < c.rows; i = i_end) {
    i_end = std::min(c.rows, i + kBlock);
    const Matrix a_rows = for_rows(form, a, i, i_end);
    std::int64_t k = 0;
    do {  // at least once, because C = 0 if the depth is 0
      const std::int64_t k_end = std::min(depth, k + stretch);
      block(form, form == Form::tn ? a_rows.row_range(k, k_end) : a_rows.col_range(k, k_end),
            form == Form::nt ? b.col_range(k, k_end) : b.row_range(k, k_end), c.row_range(i, i_end),
            write == Write::add || k > 0, packed.get());
      k = k_end;
    } while (k < depth);
  }
}

void gemm(Stream& stream, Form form, const Matrix& a, const Matrix& b, const Matrix& c,
          Write write) {
  // The threads share the longer side, which is cut between tiles. Each thread packs the operand of
  // the shorter side for itself.
  const bool by_rows = c.rows >= c.cols;
  const std::int64_t tile = by_rows ? kRows : kCols;
  const std::int64_t n = by_rows ? c.rows : c.cols;
  const std::int64_t depth = form == Form::tn ? a.rows : a.cols;
  const std::int64_t tile_work = std::max<std::int64_t>(tile * (c.rows + c.cols - n) * depth, 1);
  stream.parallel_for(
      (n + tile - 1) / tile, (kGrain + tile_work - 1) / tile_work,
      [&](std::int64_t first, std::int64_t last) {
        const std::int64_t begin = first * tile, end = std::min(n, last * tile);
        if (by_rows) {
          gemm(form, for_rows(form, a, begin, end), b, c.row_range(begin, end), write);
        } else {
          gemm(form, a, for_columns(form, b, begin, end), c.col_range(begin, end), write);
        }
      });
}

}  // namespace nanofsdp::ops
