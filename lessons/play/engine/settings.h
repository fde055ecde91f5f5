#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fsdp/options.h"
#include "plan/machine.h"
#include "train/options.h"

namespace nanofsdp::play {

/// @file
/// @brief What a visitor of the page can set.

/// A training, and the machine on whose clock it is shown.
struct Settings {
  train::TrainerOptions options{};  ///< by the names of the command line
  int ranks = 4;                    ///< W, 1 to 8
  bool pool = true;                 ///< units share slots, or each has slots of its own
  double link = 100e6;              ///< bytes/s into each rank
  double arithmetic = 10e9;         ///< floating-point operations/s of each rank
  std::string parameter{};          ///< of which one element is followed; empty: none
  std::int64_t element = 0;         ///< which
};

/// Of a JSON object: {"ranks": 4, "n_layer": 3, "strategy": "full_shard", ...}. What it leaves out
/// keeps its default: a GPT that takes milliseconds a step.
/// @throws UsageError naming the setting that is unknown or out of range
Settings parse_settings(std::string_view json);

/// How fully_shard() is told so.
fsdp::Options fsdp_options(const Settings& settings);

/// Where the clock runs: a machine for each rank, with a core that computes and one for each of two
/// collectives, so that these take no time from computation. Its memory is as fast as need be.
plan::Machine machine_of(const Settings& settings);

}  // namespace nanofsdp::play
