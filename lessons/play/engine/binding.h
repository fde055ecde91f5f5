#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/dataset.h"
#include "engine/session.h"

namespace nanofsdp::play {

/// @file
/// @brief The engine as the page sees it: a request in JSON, an answer in JSON. The native program
/// print_play speaks the same, so a test can hold one against the other.
///
///     {"do": "film", "settings": {...}}    one step of every rank (film.h)
///     {"do": "train", "settings": {...}}   begins a training: {"parameters": n}
///     {"do": "steps", "n": 5}              goes on with it: {"losses": [...]}
///     {"do": "weights"}                    their fingerprint on each rank: {"weights": [...]}
///     {"do": "sample", "length": 200}      what the model writes: {"text": "..."}
///     {"do": "plan", "args": [...]}        a run on simulated GPUs (scale.h)
///     {"do": "explain", "args": [...]}     the same in words: {"text": "..."}
///
/// What fails is answered with {"error": "..."}.
class Binding {
 public:
  Binding();
  std::string answer(std::string_view request);  ///< errors of the engine are answers, too

 private:
  const data::Dataset& tales(std::int64_t block_size);

  const std::string text_;
  std::optional<data::Dataset> dataset_;  // of rows as long as they were asked for last
  std::unique_ptr<Session> session_;      // of the training
};

}  // namespace nanofsdp::play
