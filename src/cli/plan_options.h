#pragma once

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
/// @brief The options of `nanofsdp plan`.

/// Options without --, and their values.
using Changes = std::vector<std::pair<std::string, std::string>>;

/// A training that is planned and not run.
struct PlanOptions {
  TrainOptions training;      ///< options of the training
  std::string model = "gpt";  ///< name of a model; "gpt": sizes are given
  plan::Practice practice;    ///< how a program runs a published model
  double parameters = 0;      ///< number of parameters, if there is no model; 0: there is one
  double unit = 0;            ///< largest number of them in a unit; 0: all in the root
  std::string machine;        ///< name of a machine, or a file; empty: no time
  double network = 0;         ///< bytes/s of a rank between nodes; 0: the machine's
  std::string sweep;          ///< options that are varied, "ranks,batch_size"; empty: none
  std::string picture;        ///< file for the picture of the sweep
  bool json = false;          ///< whether to print JSON for programs
  std::vector<std::string> arguments{};  ///< from which all this was read,
  Changes changes{};                     ///< and what changed() has set behind them

  /// Makes the model, without values.
  std::unique_ptr<nn::Module> make_model() const;
  plan::Machine find_machine() const;  ///< @pre a machine is named
  /// Whether ranks compute on GPUs.
  bool is_gpu() const { return training.device == Device::cuda; }
};

/// Reads the options, and no text: with --text and without --vocab_size, training.vocab_size is 0.
/// @param changes options that are set behind the arguments
/// @throws UsageError, HelpRequested
PlanOptions parse_plan_options(const std::vector<std::string>& args, const Changes& changes = {});

/// The same options with another value of one that people vary (ranks, batch_size, strategy or
/// recompute), and with its consequences. With other ranks, each rank keeps its accumulation steps
/// if they divide. One rank shards nothing, and only hybrid_shard has groups.
/// @throws UsageError as parse_plan_options()
PlanOptions changed(const PlanOptions& o, const std::string& option, const std::string& value);

}  // namespace nanofsdp::cli
