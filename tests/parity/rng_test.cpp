#include "base/rng.h"

#include <gtest/gtest.h>

#include <bit>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "parity/golden.h"

// Makes every call of PyTorch's generator in golden/rng.txt again, in its order, and compares the
// bits. The stream goes on from line to line, so a call that takes one word too many changes the
// results after it.

namespace nanofsdp {
namespace {

// Writes values as golden.py does: float32 as its bits, all others as decimal numbers.
std::string text_of(const std::vector<float>& values) {
  std::string text;
  for (const float x : values) {
    char digits[10];
    std::snprintf(digits, sizeof digits, " %08x", std::bit_cast<std::uint32_t>(x));
    text += digits;
  }
  return text.substr(1);
}

template <class Values>
std::string text_of_numbers(const Values& values) {
  std::string text;
  for (const auto x : values) text += " " + std::to_string(static_cast<std::int64_t>(x));
  return text.substr(1);
}

class Replay {
 public:
  // The result of the call `name arguments`.
  std::string operator()(const std::string& name, std::istringstream arguments) {
    std::vector<double> a;
    if (name == "seed") {
      arguments >> seed_;
      generator_.seed(seed_);
      return "";
    }
    for (double x; arguments >> x;) a.push_back(x);
    std::vector<float> out(static_cast<std::size_t>(a.back()));
    const auto integer = [&](std::size_t i) { return static_cast<std::int64_t>(a.at(i)); };
    if (name == "word") return word(integer(0));
    if (name == "discard") return generator_.discard(integer(0)), "";
    if (name == "uniform") {
      generator_.uniform(out, static_cast<float>(a[0]), static_cast<float>(a[1]));
    } else if (name.starts_with("normal")) {
      generator_.normal(out, a[0], a[1]);
    } else if (name == "kaiming") {
      const float bound = kaiming_uniform_bound(integer(0));
      generator_.uniform(out, -bound, bound);
    } else if (name == "exponential") {
      generator_.exponential(out);
    } else {
      std::vector<std::int64_t> whole(out.size());
      if (name == "randint") {
        for (auto& x : whole) x = generator_.randint(static_cast<std::uint64_t>(a[0]));
      }
      if (name == "multinomial") {
        const std::vector<float> weights{0.5f, 0.25f, 0.125f, 0.125f};
        for (auto& x : whole) x = generator_.multinomial(weights);
      }
      return text_of_numbers(whole);
    }
    const bool hashed = name == "kaiming" || name == "normal_hash";
    return hashed ? testing::sha256(std::span<const float>(out)) : text_of(out);
  }

 private:
  // A word of the raw stream, counted from its start. The generator does not move.
  std::string word(std::int64_t at) const {
    Generator fresh(seed_);
    fresh.discard(at);
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", fresh.random());
    return digits;
  }

  std::uint64_t seed_ = 0;
  Generator generator_{0};
};

TEST(RngParity, EveryCallGivesPyTorchsBits) {
  std::istringstream lines(testing::golden("rng.txt"));
  Replay replay;
  int calls = 0;
  for (std::string line; std::getline(lines, line); ++calls) {
    const std::size_t name = line.find(' '), equals = line.find(" =");
    const std::string expected = line.substr(std::min(equals + 3, line.size()));
    std::istringstream arguments(line.substr(name, equals - name));
    ASSERT_EQ(replay(line.substr(0, name), std::move(arguments)), expected)
        << line.substr(0, equals) << ", line " << calls + 1;
  }
  EXPECT_GT(calls, 200);
}

}  // namespace
}  // namespace nanofsdp
