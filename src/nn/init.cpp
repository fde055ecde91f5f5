#include "nn/init.h"

#include <algorithm>

namespace nanofsdp::nn {

void draw(Generator& generator, const Init& init, std::span<float> out) {
  const auto bound = static_cast<float>(init.scale);
  if (init.kind == Init::Kind::normal) return generator.normal(out, 0, init.scale);
  if (init.kind == Init::Kind::uniform) return generator.uniform(out, -bound, bound);
  std::ranges::fill(out, init.kind == Init::Kind::ones ? 1.0f : 0.0f);
}

void skip(Generator& generator, const Init& init, std::int64_t numel) {
  if (init.kind == Init::Kind::normal) generator.discard_normal(numel);
  if (init.kind == Init::Kind::uniform) generator.discard(numel);
}

}  // namespace nanofsdp::nn
