#pragma once

#include <cstdint>

#include "gpt/block.h"
#include "gpt/gpt.h"

namespace lesson {

/// @file
/// @brief The GPT of the lessons, and its units.

/// nanoGPT's model for a laptop. V is the size of the alphabet: 52 in the tales, which makes 802432
/// parameters, 65 in tiny Shakespeare, which makes 804096.
inline nanofsdp::gpt::GPTConfig nanogpt(std::int64_t V) { return {64, V, 4, 4, 128, 0, false}; }

/// The wrap policy "each block is a unit"; the rest is the root unit.
inline bool is_block(const nanofsdp::nn::Module& module) {
  return dynamic_cast<const nanofsdp::gpt::Block*>(&module) != nullptr;
}

}  // namespace lesson
