#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/options.h"
#include "nn/module.h"
#include "plan/machine.h"
#include "plan/transformer.h"

namespace nanofsdp::cli {

/// @file
/// @brief Options of `nanofsdp plan`.

/// Options without --, and their values.
using Changes = std::vector<std::pair<std::string, std::string>>;

/// A run that is not run.
struct PlanOptions {
  TrainOptions training;                 ///< as it would be trained
  std::string model = "gpt";             ///< by name; "gpt": by its sizes
  plan::Practice practice;               ///< how a published model is run
  double parameters = 0;                 ///< in place of a model, 0: none
  double unit = 0;                       ///< of them in a unit, 0: all in the root
  std::string machine;                   ///< by name, or a file; empty: no time
  double network = 0;                    ///< bytes/s of a rank between nodes, 0: the machine's
  std::string sweep;                     ///< what is varied, "ranks,batch_size"; empty: nothing
  std::string picture;                   ///< where the sweep is drawn
  bool json = false;                     ///< for programs
  std::vector<std::string> arguments{};  ///< from which all this was read,
  Changes changes{};                     ///< and what changed() has set behind them

  /// The model, without values.
  std::unique_ptr<nn::Module> make_model() const;
  plan::Machine find_machine() const;  ///< @pre one is named
  /// Whether ranks compute on GPUs.
  bool is_gpu() const { return training.device == Device::cuda; }
};

/// Reads no text: with --text and without --vocab_size, training.vocab_size is 0.
/// @param changes options that are set behind the arguments
/// @throws UsageError, HelpRequested
PlanOptions parse_plan_options(const std::vector<std::string>& args, const Changes& changes = {});

/// The same options, but for one that people vary (ranks, batch_size, strategy or recompute), and
/// for what follows from it: with other ranks, each rank keeps its accumulation steps where they
/// divide; one rank shards nothing, and only hybrid_shard knows groups.
/// @throws UsageError as parse_plan_options()
PlanOptions changed(const PlanOptions& o, const std::string& option, const std::string& value);

}  // namespace nanofsdp::cli
