#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "support/sha256.h"

// The expected values are from PyTorch 1.13.0a0 (Debian's 1.13.1, no MKL) on x86 with AVX2, unless
// a comment says otherwise. They are compared to the last bit.

namespace nanofsdp {
namespace {

std::vector<float> normal(Generator& generator, std::size_t n, double mean, double stddev) {
  std::vector<float> x(n);
  generator.normal(x, mean, stddev);
  return x;
}

template <typename T>
std::string sha256(const std::vector<T>& x) {
  return testing::sha256(std::span<const T>(x));
}

TEST(Rng, StreamIsMt19937) {
  struct Case {
    std::uint64_t seed;
    std::vector<std::uint32_t> first;
    std::uint32_t at_624, at_1248;
  };
  for (const Case& c :
       {Case{0, {0x8c7f0aac, 0x97c4aa2f, 0xb716a675, 0xd821ccc0}, 0x145b8f3a, 0xf9e9ecc8},
        Case{1337, {0x43140c97, 0x8f7ee0bd, 0x289f835c, 0x366c24e8}, 0x3009bf1c, 0x5acafc9b}}) {
    Generator generator(c.seed);
    std::vector<std::uint32_t> words(1249);
    for (std::uint32_t& word : words) word = generator.random();
    EXPECT_EQ(std::vector(words.begin(), words.begin() + 4), c.first) << "seed " << c.seed;
    EXPECT_EQ(words[624], c.at_624) << "seed " << c.seed;
    EXPECT_EQ(words[1248], c.at_1248) << "seed " << c.seed;
  }
  // The standard gives this check value for std::mt19937: word 10000 of seed 5489.
  Generator generator(5489);
  generator.discard(9999);
  EXPECT_EQ(generator.random(), 4123659995u);
}

TEST(Rng, OnlyTheLow32BitsOfTheSeedCount) {
  EXPECT_EQ(Generator((std::uint64_t{1} << 32) + 5).state(), Generator(5).state());
  EXPECT_EQ(Generator(static_cast<std::uint64_t>(-1)).state(), Generator(0xffffffff).state());
  EXPECT_EQ(Generator(static_cast<std::uint64_t>(-1)).uniform(), 0.993799388f);
}

TEST(Rng, TwoWordsMakeA64BitOneTheFirstOnTop) {
  Generator generator(1337);
  EXPECT_EQ(generator.random64(), 0x43140c978f7ee0bdu);
  EXPECT_EQ(generator.uniform_double(), static_cast<double>(0x1f835c366c24e8) * 0x1p-53);
}

TEST(Rng, UniformTakesTheLow24Bits) {
  const std::vector<float> expected = {0.0783171058f, 0.495616734f,  0.623098135f, 0.422438145f,
                                       0.200388372f,  0.0286536813f, 0.585123479f, 0.696675897f};
  Generator one(1337);
  for (const float x : expected) EXPECT_EQ(one.uniform(), x);
  Generator many(1337);
  std::vector<float> x(8);
  many.uniform(x, 0, 1);
  EXPECT_EQ(x, expected);
}

// If the product were rounded, half of the values would move by one unit in the last place.
TEST(Rng, UniformOfARangeIsOneFusedMultiplyAdd) {
  Generator generator(1337);
  const float bound = kaiming_uniform_bound(128);
  std::vector<float> x(384 * 128);
  generator.uniform(x, -bound, bound);
  EXPECT_EQ(x[0], -0.0745437071f);
  EXPECT_EQ(sha256(x), "8a73167cf4cde2c079d52f43fb78a6e38fe359c52a3bd42a7baee3da0b9cdd56");
  std::vector<float> bias(3);  // the bias of nn.Linear(128, 384)
  generator.uniform(bias, -bound, bound);
  EXPECT_EQ(bias, (std::vector<float>{0.0710624531f, 0.0794088468f, -0.00778260501f}));
}

TEST(Rng, UniformMayRoundToTheUpperEnd) {
  Generator generator(1337);
  std::vector<float> x(1000000);
  generator.uniform(x, 1000, 1000.001f);
  EXPECT_EQ(std::count(x.begin(), x.end(), 1000.001f), 31093);
}

struct NormalCase {
  std::size_t n;
  std::vector<float> first;
  std::string sha256;
  // Uniforms after the call, which took the same number of words as PyTorch's.
  std::vector<float> next;
};

class RngNormal : public ::testing::TestWithParam<NormalCase> {};

TEST_P(RngNormal, EqualsPyTorchAndTakesAsManyWords) {
  const NormalCase& c = GetParam();
  Generator generator(1337);
  const std::vector<float> x = normal(generator, c.n, 0, 0.02);
  EXPECT_EQ(std::vector(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(c.first.size())),
            c.first);
  EXPECT_EQ(sha256(x), c.sha256);
  for (const float next : c.next) EXPECT_EQ(generator.uniform(), next);
}

INSTANTIATE_TEST_SUITE_P(
    Lengths, RngNormal,
    ::testing::Values(
        NormalCase{5,
                   {-0.040519841f, -0.0413101763f, -0.024107255f, -0.0182444826f, -0.0250044372f},
                   "0baf93d61a7d1226e83ba08a88e66f812077a87d55a7c19a9669bf9ae4369df5",
                   {0.0573888421f, 0.766868949f}},
        NormalCase{15,
                   {-0.040519841f, -0.0413101763f, -0.024107255f, -0.0182444826f, -0.0250044372f},
                   "d94330edd50c7bf665a3d1b7f934ecd573b3d246569890127ef5fbc1358889d2",
                   {0.294356227f, 0.367695868f}},
        NormalCase{16,
                   {0.00361543172f, -0.00139976188f, -0.00719246967f, -0.0183040891f},
                   "91d3c3bb8faa5d0d784686c7a6f2113f9030a27adda445851ab2aaefa0485e6c",
                   {0.600526273f, 0.70792532f}},
        NormalCase{17,
                   {0.00361543172f, -0.00279283337f, 0.0057159448f, 0.0193024091f},
                   "b5ec348f625787d8a3b9bd0f91dba1fc5984fe6cdce3c61f0a0e2c9038698346",
                   {0.367695868f, 0.482962549f}},
        NormalCase{33,
                   {0.00361543172f, -0.00139976188f, -0.00719246967f, -0.0183040891f},
                   "2b1d1df5c154bf4c03237ab8bbd99195f4958eebfc292c1dbd241b6f2677755d",
                   {0.768430769f, 0.7135818f}},
        NormalCase{100,
                   {0.00361543172f, -0.00139976188f, -0.00719246967f, -0.0183040891f},
                   "1593744968957cd976cd96cac1c9078f921cd7b5e48edf00fae8709ef9c17b27",
                   {0.205604851f, 0.144331515f}}),
    [](const auto& info) { return "Of" + std::to_string(info.param.n); });

TEST(Rng, AMillionNormals) {
  Generator generator(1337);
  EXPECT_EQ(sha256(normal(generator, 1000003, 0, 1)),
            "7a5279715edb1818fa4406a850f4e5e7cb2689f1693f59586b121b39879dd592");
}

// Three of four normals are used, and the fourth is cached. The call of 20 does not use or drop it.
TEST(Rng, TheCachedNormalOutlivesCalls) {
  Generator generator(7);
  EXPECT_EQ(normal(generator, 3, 0, 1),
            (std::vector<float>{-0.146795094f, 0.786141276f, 0.94682163f}));
  EXPECT_EQ(normal(generator, 4, 0, 1),
            (std::vector<float>{-1.114344f, 1.69079018f, -0.894827902f, -0.355625033f}));
  EXPECT_EQ(normal(generator, 20, 0, 1).front(), -1.58266461f);
  EXPECT_EQ(normal(generator, 2, 0, 1), (std::vector<float>{1.23238575f, 1.81497276f}));
  generator.seed(7);
  EXPECT_EQ(normal(generator, 1, 0, 1), std::vector<float>{-0.146795094f});
}

TEST(Rng, RandintIsTheWordModuloHigh) {
  Generator generator(1337);
  std::vector<std::int64_t> x(12);
  for (std::int64_t& each : x) each = generator.randint(1003790);
  EXPECT_EQ(x, (std::vector<std::int64_t>{138825, 368537, 972872, 611890, 34195, 709583, 303665,
                                          356460, 483164, 170560, 73992, 506050}));
  generator.seed(1337);
  x.resize(8);
  for (std::int64_t& each : x) each = generator.randint(9035581174);
  EXPECT_EQ(x, (std::vector<std::int64_t>{3065872021, 2643422548, 7449559733, 2062126738,
                                          6836888684, 4167736032, 268248022, 3118151336}));
}

// This is PyTorch 2.x's rule; 1.13 took one word up to 2^32.
TEST(Rng, RandintTakesTwoWordsFrom2To28) {
  Generator generator(1337);
  EXPECT_EQ(generator.randint((1u << 28) - 1), 0x43140c97 % ((1u << 28) - 1));
  EXPECT_EQ(generator.state().position, 1u);
  EXPECT_EQ(generator.randint(1u << 28), 0x8f7ee0bd289f835c % (1u << 28));
  EXPECT_EQ(generator.state().position, 3u);
}

TEST(Rng, Exponential) {
  Generator generator(1337);
  std::vector<float> x(2000);
  generator.exponential(x);
  EXPECT_EQ(x[0], 0.984936655f);
  EXPECT_EQ(sha256(x), "50304981ffa82bbf173722a3d787eb0493c4a8ad0fe82c01996e7c48e8abbbe1");
}

TEST(Rng, MultinomialTakesTheLargestPOverExponential) {
  Generator generator(1337);
  const auto sample = [&generator](const std::vector<float>& p, std::size_t times) {
    std::vector<std::int64_t> samples(times);
    for (std::int64_t& s : samples) s = generator.multinomial(p);
    return samples;
  };
  EXPECT_EQ(sample({.1f, .2f, .3f, .4f}, 32),
            (std::vector<std::int64_t>{3, 3, 2, 3, 2, 2, 2, 2, 3, 3, 3, 2, 2, 0, 1, 3,
                                       1, 0, 3, 1, 1, 3, 2, 2, 1, 3, 2, 2, 2, 3, 3, 1}));
  EXPECT_EQ(sample({3, 0, 1}, 16),
            (std::vector<std::int64_t>{0, 0, 2, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0}));
}

TEST(Rng, KaimingBoundIsOneOverRootFanInToTheLastPlaces) {
  EXPECT_EQ(kaiming_uniform_bound(1), 1.0f);
  for (const int fan_in : {2, 5, 128, 384, 1536}) {
    EXPECT_FLOAT_EQ(kaiming_uniform_bound(fan_in), 1 / std::sqrt(static_cast<float>(fan_in)));
  }
}

TEST(Rng, RefusesWhatHasNoMeaning) {
  Generator generator(0);
  const GeneratorState before = generator.state();
  std::vector<float> x(4);
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(generator.uniform(x, 1, 0), Error);
  EXPECT_THROW(generator.normal(x, 0, -1), Error);
  EXPECT_THROW(generator.normal(x, 0, nan), Error);
  EXPECT_THROW(generator.randint(0), Error);
  EXPECT_THROW(generator.randint((std::uint64_t{1} << 63) + 1), Error);
  for (const std::vector<float>& p :
       {std::vector<float>{}, {0, 0}, {1, -1}, {1, nan}, {nan, 1}, {1, inf}}) {
    EXPECT_THROW(generator.multinomial(p), Error);
  }
  EXPECT_THROW(generator.discard(-1), Error);
  EXPECT_THROW(generator.discard_normal(-1), Error);
  EXPECT_THROW(kaiming_uniform_bound(0), Error);
  EXPECT_EQ(generator.state(), before);  // a refused call draws no word
}

}  // namespace
}  // namespace nanofsdp
