#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/machine.h"
#include "train/options.h"

namespace nanofsdp::play {

/// @file
/// @brief The settings that a visitor of the page can change.

/// A training, and the machine on whose clock it is shown.
struct Settings {
  train::TrainerOptions options{};  ///< options by their names on the command line
  int ranks = 4;                    ///< W, 1 to 8
  double link = 100e6;              ///< bytes/s into each rank
  double arithmetic = 10e9;         ///< floating-point operations/s of each rank
  /// Name of a parameter; one of its elements is followed; empty: none is.
  std::string parameter{};
  std::int64_t element = 0;  ///< number of that element
};

/// Reads settings from a JSON object: {"ranks": 4, "n_layer": 3, "strategy": "full_shard", ...}.
/// Settings that are missing have their defaults, which are those of a GPT that takes milliseconds
/// for a step.
/// @throws UsageError naming the setting that is unknown or out of range
Settings parse_settings(std::string_view json);

/// The machine of the clock. Each rank has a machine of its own, with one core that computes and
/// one for each of two collectives, so collectives take no time from computation. Its memory is so
/// fast that it costs no time.
plan::Machine machine_of(const Settings& settings);

}  // namespace nanofsdp::play
