#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace nanofsdp {

/// @file
/// @brief PyTorch's CPU random numbers, bit for bit: the same seed gives the same weights and the
/// same batches.
///
/// The engine is MT19937 (Matsumoto and Nishimura 1998): one stream of 32-bit words. Everything
/// else is arithmetic on these words. To give the same numbers as PyTorch, each call must take the
/// number of words that PyTorch's call takes, which the comments below give. Two words make one of
/// 64 bits, with the first word on top.
///
/// The distributions are those of PyTorch's ATen/native/cpu/DistributionTemplates.h and
/// ATen/core/TransformationHelper.h, checked against 1.13 on x86 with AVX2; 2.x differs where a
/// comment says so. This file uses no distribution of std::, because the standard does not fix
/// their algorithms.
///
/// Weights are always drawn here and then copied to the device, so they are the same on every
/// device and at every world size. Dropout does not use this stream: see dropout_key.h.

/// Everything that a Generator remembers. It has no padding, so a file may hold its bytes as they
/// are.
struct GeneratorState {
  std::array<std::uint32_t, 624> words{};  ///< the engine's state
  std::uint32_t position = 624;  ///< index of the next word; 624: new words must be made first
  std::uint32_t has_cached_normal = 0;  ///< 0 or 1
  double cached_normal = 0;  ///< the second number of a pair, with mean 0 and standard deviation 1

  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};
static_assert(sizeof(GeneratorState) == 625 * 4 + 4 + 8);

/// torch.Generator on the CPU. Two threads must not use it at once.
class Generator {
 public:
  /// If `high` is at least this number, randint() takes two words for each element: "allow approx
  /// 5% skew" (PyTorch 2.x). PyTorch 1.13 has 2^32 here, so the two versions draw different numbers
  /// for a `high` between the two.
  static constexpr std::uint64_t kRandint64 = std::uint64_t{1} << 28;

  explicit Generator(std::uint64_t seed) { this->seed(seed); }  ///< see seed()

  /// Starts the stream for this seed, as manual_seed does. Only the low 32 bits count. The cached
  /// normal is dropped.
  void seed(std::uint64_t seed);

  std::uint32_t random();    ///< the next word
  std::uint64_t random64();  ///< the next two words

  float uniform();          ///< (random() mod 2^24) / 2^24, in [0, 1): 1 word
  double uniform_double();  ///< (random64() mod 2^53) / 2^53, in [0, 1): 2 words

  /// uniform_(lo, hi): out[i] = uniform() * (hi - lo) + lo; the product is not rounded. If hi - lo
  /// is tiny beside lo, rounding may give hi itself; PyTorch 2.x then returns lo. Takes numel
  /// words.
  /// @throws Error unless lo <= hi
  void uniform(std::span<float> out, float lo, float hi);

  /// normal_(mean, stddev), by Box and Muller (1958). It turns two uniform numbers a and b into r
  /// cos(t) and r sin(t), with r = sqrt(-2 log(1 - a)) and t = 2 pi b. There are two cases:
  ///
  ///     numel >= 16   float32. First come numel uniforms d. Then each block of 16 is replaced:
  ///                   d[j] and d[j + 8] are the a and b of the pair that replaces them. If
  ///                   numel is not a multiple of 16, the last 16 elements are drawn again.
  ///                   This takes numel words, and 16 more if elements are drawn again.
  ///     numel < 16    double. b is drawn first, then a: 4 words for a pair, cosine first. A
  ///                   sine that is left over is kept for the next call of this case.
  ///
  /// mean and stddev are doubles because the second case rounds to float32 only at the end.
  /// @throws Error unless stddev >= 0
  void normal(std::span<float> out, double mean, double stddev);

  /// randint(high): random() % high; random64() % high if `high` is at least kRandint64.
  /// @throws Error unless 1 <= high <= 2^63
  std::int64_t randint(std::uint64_t high);

  /// exponential_(1): -log(1 - uniform_double()). Takes 2 words for each element. PyTorch 1.13
  /// without MKL computes the same.
  void exponential(std::span<float> out);

  /// multinomial(probabilities, 1): the argmax of p / exponential(), and the first of equal ones.
  /// The probabilities need not sum to 1. Takes 2 words for each.
  /// @throws Error unless all are finite, none is negative and at least one is positive
  std::int64_t multinomial(std::span<const float> probabilities);

  /// Skips `words` words of the stream. uniform() takes one for each element.
  void discard(std::int64_t words);
  /// Skips what normal() takes for numel elements, including the cached normal.
  void discard_normal(std::int64_t numel);

  /// The state from which set_state() continues.
  const GeneratorState& state() const { return state_; }

  /// Continues from the place in the stream at which `state` was taken.
  /// @throws Error if it is not a state that a Generator can reach
  void set_state(const GeneratorState& state);

 private:
  void make_words();

  GeneratorState state_;
};

/// The bound b of the uniform(-b, b) from which nn.Linear draws its weight: kaiming_uniform_(a =
/// sqrt(5)), He et al. 2015. b = sqrt(3) * sqrt(2 / (1 + a^2)) / sqrt(fan_in), which is 1 /
/// sqrt(fan_in) except for rounding.
/// @throws Error unless fan_in >= 1
float kaiming_uniform_bound(std::int64_t fan_in);

}  // namespace nanofsdp
