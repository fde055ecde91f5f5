#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/options.h"
#include "nn/module.h"
#include "plan/machine.h"
#include "plan/transformer.h"

namespace nanofsdp::cli {

/// @file
/// @brief The options of `nanofsdp plan`.

/// Options as they are typed. If they are to follow others, each has a blank before it.
using Words = std::vector<std::string>;

/// A training that is planned and not run.
struct PlanOptions {
  TrainOptions training;  ///< options of the training; its ranks have the same part of the model
  std::string model = "gpt";         ///< name of a model; "gpt": sizes are given
  std::string kernels = "nanofsdp";  ///< the code that runs the model (data/help/kernels.txt)
  plan::Practice practice;           ///< how a program runs a published model
  double parameters = 0;  ///< number of parameters, if there is no model; 0: there is one
  double unit = 0;        ///< largest number of them in a unit; 0: all in the root
  std::string machine;    ///< name of a machine, or a file; empty: no time
  double network = 0;     ///< bytes/s of a rank between nodes; 0: the machine's
  double reserve = 2;     ///< GiB of a rank that are held back
  double fit = 0;         ///< bytes of a rank, at most the machine's, to fill; 0: not asked
  std::string sweep;      ///< options that are varied, "ranks,batch_size"; empty: none
  bool json = false;      ///< whether to print JSON for programs
  Words arguments{};      ///< from which all this was read
  /// Whether the number of accumulation steps is the default, which may follow that of the ranks.
  bool default_steps = false;
  /// The values of the options that decide most, for people.
  nlohmann::ordered_json planned{};

  /// Makes the model, without values.
  std::unique_ptr<nn::Module> make_model() const;
  /// The ranks of the run: each of `training` is a tensor group.
  int ranks() const { return training.ranks * practice.tensor; }
  plan::Machine find_machine() const;  ///< @pre a machine is named
  /// Whether this library's own code runs the model.
  bool is_ours() const { return kernels == "nanofsdp"; }
  /// Whether ranks compute on GPUs.
  bool is_gpu() const { return training.device == Device::cuda; }
};

/// Reads the options, and no text: with --text and without --vocab_size, training.vocab_size is 0.
/// @throws UsageError, HelpRequested
PlanOptions parse_plan_options(const std::vector<std::string>& args);

/// The same options with more of them typed behind: " --ranks=8 --strategy=no_shard".
/// @param words each has one blank before it
/// @throws UsageError as parse_plan_options()
PlanOptions typed_behind(const PlanOptions& o, std::string_view words);

/// The words for another number of ranks, or of tensor groups. Each keeps its accumulation steps,
/// if they divide.
std::string ranks_typed(const PlanOptions& o, std::int64_t groups);

}  // namespace nanofsdp::cli
