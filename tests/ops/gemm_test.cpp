#include "ops/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "ops/micro_kernel.h"

namespace nanofsdp::ops::gemm_test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A product of matrices with NaN around them: behind every row, and behind the last one.
struct Product {
  Form form;
  std::int64_t rows, cols, depth;
  std::vector<float> a_values, b_values, c_values;
  Matrix a, b, c;

  Product(Form form, std::int64_t rows, std::int64_t cols, std::int64_t depth)
      : form(form), rows(rows), cols(cols), depth(depth) {
    a = form == Form::tn ? place(a_values, depth, rows) : place(a_values, rows, depth);
    b = form == Form::nt ? place(b_values, cols, depth) : place(b_values, depth, cols);
    c = place(c_values, rows, cols);
  }

  float& at(const Matrix& m, std::int64_t i, std::int64_t j) { return m.data[i * m.stride + j]; }
  float& a_at(std::int64_t i, std::int64_t k) {
    return form == Form::tn ? at(a, k, i) : at(a, i, k);
  }
  float& b_at(std::int64_t k, std::int64_t j) {
    return form == Form::nt ? at(b, j, k) : at(b, k, j);
  }

  template <class F>
  void fill(F f) {
    for (const Matrix& m : {a, b, c}) {
      for (std::int64_t i = 0; i < m.rows; ++i) {
        for (std::int64_t j = 0; j < m.cols; ++j) at(m, i, j) = f();
      }
    }
  }

  // Small whole numbers: their sums of products are exact in any order.
  void fill_with_integers() {
    int n = 0;
    fill([&] { return static_cast<float>((n += 7) % 17 - 8); });
  }
  void fill_with_fractions() {
    std::mt19937 bits(5);
    fill([&] { return static_cast<float>(bits() >> 8) * 0x1p-23f - 1.0f; });
  }

 private:
  static Matrix place(std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
    values.assign((rows + 1) * (cols + 3), kNaN);
    return {values.data() + 1, rows, cols, cols + 3};
  }
};

// Fewer rows and columns than a tile, a tile, and more; depth 0, a part of a register, and more
// than one block.
template <class F>
void for_all_shapes(F check) {
  for (const Form form : {Form::nn, Form::nt, Form::tn}) {
    for (const std::int64_t rows : {1, kRows - 1, kRows, 2 * kRows + 5}) {
      for (const std::int64_t cols : {1, kLanes + 1, int{kCols}, 3 * kCols - 2}) {
        for (const std::int64_t depth : {0, 1, kLanes - 1, 2 * kLanes + 5, 2 * int{kDepth} + 7}) {
          check(Product(form, rows, cols, depth));
        }
      }
    }
    check(Product(form, 1000, kCols + 1, 5));  // more than one block of rows
  }
}

TEST(Gemm, IsTheSumOfTheProductsAndTouchesNothingElse) {
  for_all_shapes([](Product p) {
    p.fill_with_integers();
    const std::vector<float> before = p.c_values;
    for (const Write write : {Write::assign, Write::add}) {
      p.c_values = before;
      std::vector<float> want = before;
      for (std::int64_t i = 0; i < p.rows; ++i) {
        for (std::int64_t j = 0; j < p.cols; ++j) {
          float& sum = want[1 + i * p.c.stride + j];
          if (write == Write::assign) sum = 0;
          for (std::int64_t k = 0; k < p.depth; ++k) sum += p.a_at(i, k) * p.b_at(k, j);
        }
      }
      gemm(p.form, p.a, p.b, p.c, write);
      ASSERT_TRUE(same_bits(p.c_values, want))
          << "form " << static_cast<int>(p.form) << ", " << p.rows << " x " << p.cols << " x "
          << p.depth << ", write " << static_cast<int>(write);
    }
  });
}

// Data parallelism, several threads and blocked attention all need this.
TEST(Gemm, ARowHasTheSameBitsInAnyCompany) {
  for_all_shapes([](Product p) {
    p.fill_with_fractions();
    gemm(p.form, p.a, p.b, p.c, Write::assign);
    const std::vector<float> whole = p.c_values;
    for (const std::int64_t cut : {std::int64_t{1}, p.rows / 3, p.rows / 2}) {
      for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, p.rows}}) {
        gemm(p.form, p.form == Form::tn ? p.a.col_range(begin, end) : p.a.row_range(begin, end),
             p.b, p.c.row_range(begin, end), Write::assign);
      }
      ASSERT_TRUE(same_bits(p.c_values, whole)) << p.rows << " rows, cut at " << cut;
    }
  });
}

TEST(Gemm, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const Form form : {Form::nn, Form::nt, Form::tn}) {
    for (const auto& [rows, cols] : {std::pair{301, 70}, std::pair{70, 301}}) {
      Product p(form, rows, cols, 300);
      p.fill_with_fractions();
      gemm(form, p.a, p.b, p.c, Write::assign);
      const std::vector<float> want = p.c_values;
      for (const int threads : {1, 2, 3, 7}) {
        const auto stream = make_compute_stream(Device::cpu, threads);
        gemm(*stream, form, p.a, p.b, p.c, Write::assign);
        ASSERT_TRUE(same_bits(p.c_values, want)) << threads << " threads";
      }
    }
  }
}

TEST(Gemm, WhatIsNoNumberSpoilsItsOwnRowAndColumnOnly) {
  for (const Form form : {Form::nn, Form::nt, Form::tn}) {
    Product p(form, 2 * kRows + 1, 2 * kCols + 1, 2 * kLanes + 1);
    for (const auto& [row, column] : {std::pair{3, 5}, std::pair{2 * kRows, 2 * kCols}}) {
      p.fill_with_integers();
      p.a_at(row, kLanes) = kNaN;
      p.b_at(1, column) = kNaN;
      gemm(form, p.a, p.b, p.c, Write::assign);
      for (std::int64_t i = 0; i < p.rows; ++i) {
        for (std::int64_t j = 0; j < p.cols; ++j) {
          ASSERT_EQ(std::isnan(p.at(p.c, i, j)), i == row || j == column) << i << ", " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace nanofsdp::ops::gemm_test
