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
/// @brief The engine for the page: it takes a request in JSON and returns an answer in JSON. The
/// native program print_play does the same, so a test can compare the two.
///
///     {"do": "film", "settings": {...}}    one step of every rank (film.h)
///     {"do": "train", "settings": {...}}   begins a training: {"parameters": n}
///     {"do": "steps", "n": 5}              goes on with it: {"losses": [...]}
///     {"do": "weights"}                    their fingerprint on each rank: {"weights": [...]}
///     {"do": "sample", "length": 200}      what the model writes: {"text": "..."}
///     {"do": "plan", "args": [...]}        a run on simulated GPUs (scale.h)
///     {"do": "explain", "args": [...]}     the same in words: {"text": "..."}
///
/// If a request fails, the answer is {"error": "..."}.
class Binding {
 public:
  Binding();
  std::string answer(std::string_view request);  ///< errors of the engine are answers, too

 private:
  const data::Dataset& tales(std::int64_t block_size);

  const std::string text_;
  std::optional<data::Dataset> dataset_;  // with rows of the last requested length
  std::unique_ptr<Session> session_;      // the training that has begun
};

}  // namespace nanofsdp::play
