#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace nanofsdp {

/// @file
/// @brief PyTorch's CPU random numbers, bit for bit: same seed, same weights, same batches.
///
/// The engine is MT19937 (Matsumoto and Nishimura 1998): one stream of 32-bit words. Everything
/// else is arithmetic on these words, so parity is a matter of position as much as of value: each
/// call below says how many words it takes. Two words make a 64-bit one, the first on top.
///
/// The distributions are those of PyTorch's ATen/native/cpu/DistributionTemplates.h and
/// ATen/core/TransformationHelper.h, checked against 1.13 on x86 with AVX2; 2.x differs where a
/// comment says so. No std:: distribution is used: the standard leaves their algorithms open.
///
/// Weights are always drawn here and then uploaded: the same on every device and at every world
/// size. Dropout does not draw from a stream at all: see dropout_key.h.

/// Everything a Generator remembers; no padding, so its bytes may be saved as they are.
struct GeneratorState {
  std::array<std::uint32_t, 624> words{};  ///< the engine's state
  std::uint32_t position = 624;         ///< words[position] comes next; 624: make new words first
  std::uint32_t has_cached_normal = 0;  ///< 0 or 1
  double cached_normal = 0;             ///< second half of a pair: mean 0, standard deviation 1

  friend bool operator==(const GeneratorState&, const GeneratorState&) = default;
};
static_assert(sizeof(GeneratorState) == 625 * 4 + 4 + 8);

/// torch.Generator on the CPU. Not for two threads at once.
class Generator {
 public:
  /// From this `high` on, randint takes two words an element: "allow approx 5% skew" (PyTorch 2.x).
  /// PyTorch 1.13 had 2^32 here, so draws below a `high` between the two differ by version.
  static constexpr std::uint64_t kRandint64 = std::uint64_t{1} << 28;

  explicit Generator(std::uint64_t seed) { this->seed(seed); }  ///< as seed()

  /// Starts anew, as manual_seed: only the low 32 bits count, and the cached normal is forgotten.
  void seed(std::uint64_t seed);

  std::uint32_t random();    ///< the next word
  std::uint64_t random64();  ///< the next two words

  float uniform();          ///< (random() mod 2^24) / 2^24, in [0, 1): 1 word
  double uniform_double();  ///< (random64() mod 2^53) / 2^53, in [0, 1): 2 words

  /// uniform_(lo, hi): out[i] = uniform() * (hi - lo) + lo, the product not rounded. Rounding may
  /// give hi itself where hi - lo is tiny against lo; there 2.x returns lo. numel words.
  /// @throws Error unless lo <= hi
  void uniform(std::span<float> out, float lo, float hi);

  /// normal_(mean, stddev), by Box and Muller (1958): r = sqrt(-2 log(1 - a)), t = 2 pi b make
  /// r cos(t) and r sin(t) of two uniforms. Two regimes:
  ///
  ///     numel >= 16   float32. First numel uniforms d, then each block of 16 in place: d[j], d[j +
  ///     8]
  ///                   are a, b of the pair that lands on d[j], d[j + 8]. If numel is not a
  ///                   multiple of 16, the last 16 elements are drawn once more, over finished
  ///                   ones. numel words, and 16 more in that case.
  ///     numel < 16    double. b is drawn first, then a: 4 words a pair, cosine first; a sine left
  ///                   over is kept for the next call of this regime, however far away.
  ///
  /// mean and stddev are doubles because the second regime rounds to float32 only at the end.
  /// @throws Error unless stddev >= 0
  void normal(std::span<float> out, double mean, double stddev);

  /// randint(high): random() % high, or random64() % high from kRandint64 on.
  /// @throws Error unless 1 <= high <= 2^63
  std::int64_t randint(std::uint64_t high);

  /// randint(high, (numel,)): one draw an element.
  void randint(std::span<std::int64_t> out, std::uint64_t high);

  /// exponential_(1): -log(1 - uniform_double()). 2 words an element. (As PyTorch 1.13 without
  /// MKL.)
  void exponential(std::span<float> out);

  /// multinomial(probabilities, 1): argmax of p / exponential(), the first of equals; p need not
  /// sum to 1. 2 words a probability.
  /// @throws Error unless all are finite, none is negative and one is positive
  std::int64_t multinomial(std::span<const float> probabilities);

  void discard(std::int64_t words);  ///< skips `words` words of the stream
  /// Leaves the state that uniform() of numel leaves.
  void discard_uniform(std::int64_t numel) { discard(numel); }
  void discard_normal(std::int64_t numel);  ///< same for normal(), cache included

  /// All that set_state() needs to go on from here.
  const GeneratorState& state() const { return state_; }

  /// Continues where `state` was taken.
  /// @throws Error if it is not a state that a Generator can reach
  void set_state(const GeneratorState& state);

 private:
  void make_words();

  GeneratorState state_;
};

/// nn.Linear draws its weight from uniform(-b, b): kaiming_uniform_(a = sqrt(5)), He et al. 2015,
/// b = sqrt(3) * sqrt(2 / (1 + a^2)) / sqrt(fan_in), which is 1 / sqrt(fan_in) but for rounding.
/// @throws Error unless fan_in >= 1
float kaiming_uniform_bound(std::int64_t fan_in);

}  // namespace nanofsdp
