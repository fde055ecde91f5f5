#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/run_ranks.h"
#include "data/dataset.h"
#include "train/options.h"
#include "train/sampler.h"

namespace nanofsdp::cli {

/// @file
/// @brief Reads and checks the command lines of `nanofsdp train`, `eval`, `sample` and `export`.
///
/// Options have nanoGPT's names and meanings (its train.py, sample.py), so the commands of its
/// README work as they stand, with the positional config file. A later source overrides an earlier
/// one, in this order: defaults, config file, command line. A model that is resumed or finetuned
/// keeps its own sizes. Every mistake throws one UsageError that names the option, the expected
/// value, and what to write instead.

using comm::Backend;

/// The options of `nanofsdp train` and `nanofsdp eval`: those of the trainer, of the data and of
/// the ranks, and those of the command itself.
struct TrainOptions : train::TrainerOptions, data::TextOptions, comm::RanksOptions {
  // The output for people.
  std::int64_t log_interval = 10;
  std::int64_t sample = 500;  ///< tokens of the text at the end; 0: none
  std::string metrics;        ///< a JSON lines file; empty: none
  /// The metrics file of another run, which is drawn beside this one; empty: none.
  std::string reference;
  std::string trace;     ///< a Chrome trace of a few steps; empty: none
  std::string products;  ///< a file with the fastest kernels of cuBLAS (ops/matmul.h); empty: none
  bool explain = false;
  std::string recipe{};  ///< the settings on which the options are based, for people

  /// Notes for start-up, one for each option that this program does not have.
  std::vector<std::string> notes{};
};

/// The choice of a trained model.
struct SavedModel {
  std::string out_dir = "out";  ///< the directory of `train --out_dir`
  std::string init_from = "resume";
  std::string pretrained;  ///< the directory of another model (pretrained.h); empty: none
  std::map<std::string, std::string> settings{};  ///< settings that must be equal on all ranks
  /// The directory of the model's files.
  const std::string& directory() const { return pretrained.empty() ? out_dir : pretrained; }
};

/// Options of `nanofsdp sample`.
struct SampleOptions : SavedModel, comm::RanksOptions, train::SamplingOptions {
  std::string vocab;         ///< a vocab.json; empty: the model's own
  std::string start = "\n";  ///< the prompt, or FILE: and a path
  std::int64_t num_samples = 1;
  std::int64_t seed = 1337;
  std::vector<std::string> notes{};
};

/// Options of `nanofsdp export`.
struct ExportOptions : SavedModel, comm::RanksOptions {
  std::string to;                ///< the directory of the files
  DType dtype = DType::float32;  ///< the dtype of the weights in the files
};

/// Thrown when the arguments hold --help, -h or --help=all. The text is printed on stdout, with
/// exit code 0.
struct HelpRequested {
  std::string text;
};

/// @param args the arguments after `nanofsdp train`
/// @throws UsageError, HelpRequested
TrainOptions parse_train_options(const std::vector<std::string>& args);

/// Reads the options of `nanofsdp eval`, which is `train --eval_only --init_from=resume`. The
/// default of `--out_dir` is "out". The options that decide its numbers have the values of the run
/// that was saved: dataset, batch_size, eval_iters, seed, and the model's sizes.
/// @throws UsageError, HelpRequested
TrainOptions parse_eval_options(const std::vector<std::string>& args);

/// Reads the options of `nanofsdp compare`: those of train, without the ones that would make its
/// four runs unlike, or that write files.
/// @throws UsageError, HelpRequested
TrainOptions parse_compare_options(const std::vector<std::string>& args);

/// @param args the arguments after `nanofsdp sample`
/// @throws UsageError, HelpRequested
SampleOptions parse_sample_options(const std::vector<std::string>& args);

/// @param args the arguments after `nanofsdp export`
/// @throws UsageError, HelpRequested
ExportOptions parse_export_options(const std::vector<std::string>& args);

}  // namespace nanofsdp::cli
