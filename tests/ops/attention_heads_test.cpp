#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/attention_oracle.h"
#include "support/errors.h"

namespace nanofsdp::ops::attention_heads_test {
namespace {

using namespace attention_oracle;

// Columns [first, first + count) of every row.
std::vector<float> columns(const Owned<float>& x, std::int64_t first, std::int64_t count) {
  std::vector<float> found;
  const std::int64_t width = x.shape[2];
  for (std::int64_t row = 0; row < x.shape[0] * x.shape[1]; ++row) {
    const auto begin = x.values.begin() + row * width + first;
    found.insert(found.end(), begin, begin + count);
  }
  return found;
}

// Heads in a tensor of their own, with `beside` more columns on either side.
struct Apart {
  Apart(const Sizes& s, int heads, std::int64_t beside)
      : beside(beside),
        count(s.C / s.H * heads),
        rows({s.B, s.T, count + 2 * beside}, kPoison),
        view{rows, beside, heads} {}

  // Copies its columns from packed rows, where they begin at `first`.
  void take(const Owned<float>& packed, std::int64_t first) {
    const std::vector<float> from = columns(packed, first, count);
    for (std::int64_t i = 0; i < std::int64_t(from.size()); ++i) {
      rows.values[i / count * rows.shape[2] + beside + i % count] = from[i];
    }
  }

  // Expects these columns, and unchanged columns beside them.
  void expect(const Owned<float>& packed, std::int64_t first) const {
    EXPECT_EQ(columns(rows, beside, count), columns(packed, first, count));
    for (const std::int64_t side : {std::int64_t{0}, beside + count}) {
      for (const float x : columns(rows, side, beside)) EXPECT_TRUE(x != x);
    }
  }

  std::int64_t beside, count;
  Owned<float> rows;
  Heads view;
};

// The columns beside the heads are NaN: the operator must not read or write them.
TEST(AttentionHeads, MayLieInTensorsOfTheirOwn) {
  for (const Sizes& s : kSizes) {
    for (const std::int64_t beside : {0, 3}) {
      SCOPED_TRACE(name(s, 0.3f) + " beside=" + std::to_string(beside));
      Operands packed(s, 1, 0.3f), o(s, 1, 0.3f);
      packed.run();
      Apart q(s, s.H, beside), k(s, s.H_kv, beside), v(s, s.H_kv, beside);
      Apart dq(s, s.H, beside), dk(s, s.H_kv, beside), dv(s, s.H_kv, beside);
      const std::int64_t first_k = s.C, first_v = s.C + s.kv();
      q.take(packed.qkv, 0);
      k.take(packed.qkv, first_k);
      v.take(packed.qkv, first_v);

      AttentionForward forward = o.forward();
      forward.q = q.view;
      forward.k = k.view;
      forward.v = v.view;
      attention(*o.stream, forward);
      AttentionBackward backward = o.backward();
      backward.q = q.view;
      backward.k = k.view;
      backward.v = v.view;
      backward.dq = dq.view;
      backward.dk = dk.view;
      backward.dv = dv.view;
      attention(*o.stream, backward);

      EXPECT_EQ(o.y.values, packed.y.values);
      EXPECT_EQ(o.lse.values, packed.lse.values);
      dq.expect(packed.dqkv, 0);
      dk.expect(packed.dqkv, first_k);
      dv.expect(packed.dqkv, first_v);
    }
  }
}

// At one T and with finite values, other later positions change no bit of y and lse.
TEST(AttentionHeads, APositionDependsOnNoLaterOne) {
  for (const Sizes& s : kSizes) {
    Operands before(s, 1);
    attention(*before.stream, before.forward());
    for (const std::int64_t cut : {std::int64_t{1}, s.T / 2, s.T - 1}) {
      if (cut < 1) continue;
      SCOPED_TRACE(name(s, 0) + " cut=" + std::to_string(cut));
      Operands after(s, 1);
      const std::int64_t width = after.qkv.shape[2], C = after.y.shape[2];
      for (std::int64_t i = 0; i < after.qkv.shape.numel(); ++i)
        if (i / width % s.T >= cut) after.qkv.values[static_cast<std::size_t>(i)] *= -30;
      attention(*after.stream, after.forward());
      for (std::size_t i = 0; i < after.y.values.size(); ++i) {
        if (static_cast<std::int64_t>(i) / C % s.T < cut) {
          ASSERT_EQ(after.y.values[i], before.y.values[i]) << i;
        }
      }
      for (std::size_t i = 0; i < after.lse.values.size(); ++i) {
        if (static_cast<std::int64_t>(i) % s.T < cut) {
          ASSERT_EQ(after.lse.values[i], before.lse.values[i]) << i;
        }
      }
    }
  }
}

template <class Operands>
Operands with(Operands a, Heads Operands::*member, const Heads& heads) {
  a.*member = heads;
  return a;
}

TEST(AttentionHeads, AnErrorNamesTheOperand) {
  Operands o({2, 6, 8, 2});
  Owned<float> flat({2, 6}), shorter({2, 5, 24});
  Owned<std::int32_t> integers({2, 6, 24});
  const Tensor qkv = o.qkv;
  const auto expect = [&](const auto& a, const std::string& operand) {
    testing::expect_error<ShapeError>([&] { attention(*o.stream, a); },
                                      "attention: " + operand + ": expected ");
  };
  const auto expect_all = [&](const auto& a, auto member, const std::string& operand) {
    const Heads right = a.*member;
    const std::int64_t first = right.first;
    for (const Heads& wrong :
         {Heads{}, Heads{flat, first, 2}, Heads{integers, first, 2}, Heads{qkv, -1, 2},
          Heads{qkv, 17, 2}, Heads{qkv, first, 0}, Heads{qkv, first, -2}}) {
      expect(with(a, member, wrong), operand);
    }
    if (operand == "q") return;  // T and H come from q
    for (const Heads& wrong : {Heads{shorter, first, 2}, Heads{qkv, 0, 3}}) {
      expect(with(a, member, wrong), operand);
    }
  };
  expect_all(o.forward(), &AttentionForward::q, "q");
  expect_all(o.forward(), &AttentionForward::k, "k");
  expect_all(o.forward(), &AttentionForward::v, "v");
  expect_all(o.backward(), &AttentionBackward::q, "q");
  expect_all(o.backward(), &AttentionBackward::k, "k");
  expect_all(o.backward(), &AttentionBackward::v, "v");
  expect_all(o.backward(), &AttentionBackward::dq, "dq");
  expect_all(o.backward(), &AttentionBackward::dk, "dk");
  expect_all(o.backward(), &AttentionBackward::dv, "dv");
  expect(with(o.forward(), &AttentionForward::q, {qkv, 0, 4}), "lse");
  expect(with(o.forward(), &AttentionForward::k, {qkv, 8, 1}), "v");
}

// Six query heads cannot share four heads of keys.
TEST(AttentionHeads, OfKeysDivideThoseOfQueries) {
  Operands o({1, 3, 12, 6});
  testing::expect_error<ShapeError>(
      [&] {
        attention(*o.stream, with(o.forward(), &AttentionForward::k, {o.qkv, 12, 4}));
      },
      "attention: k: expected 2 heads, from column 0 or later, got 4, from 12; the heads of keys "
      "and of values divide those of queries");
}

}  // namespace
}  // namespace nanofsdp::ops::attention_heads_test
