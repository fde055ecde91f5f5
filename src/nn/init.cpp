#include "nn/init.h"

#include <algorithm>

namespace nanofsdp::nn {

void draw(Generator& generator, const Init& init, std::span<float> out) {
  switch (init.kind) {
    case Init::Kind::zeros:
      std::ranges::fill(out, 0.0f);
      return;
    case Init::Kind::ones:
      std::ranges::fill(out, 1.0f);
      return;
    case Init::Kind::normal:
      return generator.normal(out, 0, init.scale);
    case Init::Kind::uniform:
      return generator.uniform(out, static_cast<float>(-init.scale),
                               static_cast<float>(init.scale));
  }
}

void skip(Generator& generator, const Init& init, std::int64_t numel) {
  if (init.kind == Init::Kind::normal) generator.discard_normal(numel);
  if (init.kind == Init::Kind::uniform) generator.discard_uniform(numel);
}

}  // namespace nanofsdp::nn
