#include "train/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/transfer.h"

namespace nanofsdp::train {
namespace {

// The probabilities of the tokens: the softmax of logits / temperature, over the k largest only.
std::vector<float> probabilities(std::span<const float> logits, const SamplingOptions& options) {
  std::vector<float> scaled(logits.begin(), logits.end());
  for (float& x : scaled) x = static_cast<float>(x / options.temperature);
  const auto k = std::min(static_cast<std::size_t>(options.top_k), scaled.size());
  std::vector<float> sorted = scaled;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(k) - 1,
                           std::greater<>());
  const float threshold = sorted[k - 1];
  const float largest = *std::ranges::max_element(scaled);
  double sum = 0;
  for (float& x : scaled) {
    x = x < threshold ? 0.0f : std::exp(x - largest);
    sum += x;
  }
  for (float& x : scaled) x = static_cast<float>(x / sum);
  return scaled;
}

}  // namespace

std::vector<std::int32_t> generate(fsdp::ShardedModel& model, nn::Tape& tape,
                                   nn::KeyValueCache& cache, std::vector<std::int32_t> tokens,
                                   const SamplingOptions& options, Generator& generator) {
  std::vector<float> room;
  cache.clear();
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    if (std::ssize(tokens) > cache.capacity()) cache.clear();
    const std::int64_t window = std::min<std::int64_t>(std::ssize(tokens), cache.capacity());
    const std::int64_t fresh = window - cache.length();
    options.cached ? tape.begin_decoding(cache) : tape.begin(/*training=*/false);
    const Tensor input = tape.allocate({1, fresh}, DType::int32);
    transfer(tape.stream(), Tensor(&*(tokens.end() - fresh), input.shape(), DType::int32), input);
    // The logits of the last position, or of all positions in the window.
    const Tensor all = model.forward(tape, input);
    const Tensor last = all.slice(all.numel() - all.dim(2), all.dim(2));
    const auto logits = on_host<float>(tape.stream(), last, room);
    tokens.push_back(
        static_cast<std::int32_t>(generator.multinomial(probabilities(logits, options))));
    tape.end();
  }
  return tokens;
}

}  // namespace nanofsdp::train
