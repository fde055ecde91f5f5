#include "comm/agreement.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "support/ranks.h"

namespace nanofsdp::testing {
namespace {

using comm::CommError;
using comm::Communicator;

// These are the examples of its author: http://www.isthe.com/chongo/tech/comp/fnv/
TEST(Fingerprint, IsFnv1aOf64Bits) {
  EXPECT_EQ(nanofsdp::fingerprint(""), 0xcbf29ce484222325u);
  EXPECT_EQ(nanofsdp::fingerprint("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(nanofsdp::fingerprint("foobar"), 0x85944171f73967e8u);
}

TEST(Fingerprint, IsOfBytesAndSeesEachOfThem) {
  const std::array<std::byte, 3> bytes{std::byte{0xff}, std::byte{0}, std::byte{'a'}};
  EXPECT_EQ(nanofsdp::fingerprint(bytes), nanofsdp::fingerprint(std::string_view("\xff\0a", 3)));
  EXPECT_NE(nanofsdp::fingerprint(std::string_view("\xff\0b", 3)), nanofsdp::fingerprint(bytes));
  EXPECT_NE(nanofsdp::fingerprint(std::string_view("\xff", 2)), nanofsdp::fingerprint("\xff"));
}

// Ranks compare their first values by this. So it must see the sign of a zero, and each bit of a
// NaN.
TEST(Fingerprint, OfNumbersSeesEachBit) {
  std::mt19937 words(7);
  for (const std::size_t n : {1, 2, 3, 100}) {
    std::vector<float> x(n);
    for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(words()));
    x[words() % n] = 0;
    const std::uint64_t before = nanofsdp::fingerprint(x);
    for (float& value : x) {
      for (std::uint32_t bit = 0; bit < 32; ++bit) {
        const float kept = value;
        value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(kept) ^ 1u << bit);
        EXPECT_NE(nanofsdp::fingerprint(x), before) << n << " numbers, bit " << bit;
        value = kept;
      }
    }
    EXPECT_EQ(nanofsdp::fingerprint(x), before);
  }
}

class Agreements : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  // Runs `body` on every rank of the group.
  template <class Body>
  void run(const Body& body) {
    run_ranks(std::get<0>(GetParam()), std::get<1>(GetParam()), body);
  }
};

// The text of the mismatch that require_agreement throws here, or "agreed".
std::string verdict(Context& context, Communicator& world, std::uint64_t fingerprint) {
  try {
    comm::require_agreement(world, *context.gather, "options", fingerprint, "start all alike");
    return "agreed";
  } catch (const CommError& e) {
    EXPECT_EQ(e.kind, CommError::Kind::mismatch);
    return e.what();
  }
}

TEST_P(Agreements, PassesWhenAllRanksHaveTheSame) {
  run([](Context& context, Communicator& world) {
    EXPECT_EQ(verdict(context, world, 0), "agreed");
    EXPECT_EQ(verdict(context, world, ~std::uint64_t{0}), "agreed");
    EXPECT_EQ(verdict(context, world, nanofsdp::fingerprint("batch_size = 12")), "agreed");
  });
}

// One bit differs, the lowest or the highest, on any rank. Every rank gives the same error, and can
// go on.
TEST_P(Agreements, NamesTheFirstRankThatDiffersOnEveryRank) {
  run([](Context& context, Communicator& world) {
    for (int odd = 1; odd < world.size(); ++odd) {
      EXPECT_EQ(verdict(context, world, context.rank == odd ? 0x11 : 0x10),
                "ranks disagree on options: rank 0 has 0x0000000000000010, rank " +
                    std::to_string(odd) + " has 0x0000000000000011; start all alike");
    }
    EXPECT_EQ(verdict(context, world, context.rank == 0 ? std::uint64_t{1} << 63 : 0),
              "ranks disagree on options: rank 0 has 0x8000000000000000, rank 1 has "
              "0x0000000000000000; start all alike");
    EXPECT_EQ(verdict(context, world, 7), "agreed");
  });
}

TEST(Agreement, OfOneRankIsCertain) {
  Context context;
  const auto alone = comm::make_self();
  EXPECT_EQ(verdict(context, *alone, 7), "agreed");
}

TEST_P(Agreements, IsControlTraffic) {
  run([](Context& context, std::unique_ptr<Communicator> inner) {
    comm::Communicator& world = *inner;
    EXPECT_EQ(verdict(context, world, 7), "agreed");
    EXPECT_EQ(world.traffic(), comm::Traffic{.control = 1});
  });
}

std::string name(const ::testing::TestParamInfo<std::tuple<Backend, int>>& info) {
  return name_of(std::get<0>(info.param)) + std::to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, Agreements,
                         ::testing::Combine(::testing::ValuesIn(backends()),
                                            ::testing::Values(2, 3)),
                         name);

}  // namespace
}  // namespace nanofsdp::testing
