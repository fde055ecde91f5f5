#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/run_ranks.h"
#include "data/dataset.h"
#include "train/options.h"

namespace nanofsdp::cli {

/// @file
/// @brief What the command line says, checked: `nanofsdp train`, `eval`, `sample`, `export`.
///
/// Options bear nanoGPT's names and meanings (its train.py, sample.py), so its README's commands
/// work as they stand, the positional config file included. Settings count in this order, the later
/// one wins: defaults, config file, command line; and the sizes of a model that is resumed, or
/// finetuned, are its own. Whatever is wrong throws one UsageError that names the option, what was
/// expected and what to write instead.

using comm::Backend;

/// Options of `nanofsdp train` and `nanofsdp eval`: what the trainer and the data ask for, and what
/// is of the command alone.
struct TrainOptions : train::TrainerOptions, data::TextOptions, comm::RanksOptions {
  // What a person sees.
  std::int64_t log_interval = 10;
  std::int64_t sample = 500;  ///< tokens of the text written at the end; 0: none
  std::string metrics;        ///< a JSON lines file; empty: none
  std::string reference;      ///< another run's, drawn beside this one; empty: none
  std::string trace;          ///< a Chrome trace of a few steps; empty: none
  std::string products;  ///< which kernels of cuBLAS are the fastest (ops/matmul.h); empty: none
  bool explain = false;
  std::string recipe{};  ///< on which the options stand, for people

  /// One line for each option that asks for what this program does not do, to be shown at start-up.
  std::vector<std::string> notes{};
};

/// Which trained model.
struct SavedModel {
  std::string out_dir = "out";  ///< where `train --out_dir` saved
  std::string init_from = "resume";
  std::string pretrained;  ///< the directory of another model instead (pretrained.h); empty: none
};

/// Options of `nanofsdp sample`.
struct SampleOptions : SavedModel, comm::RanksOptions {
  std::string vocab;         ///< a vocab.json; empty: the model's own
  std::string start = "\n";  ///< the prompt, or FILE: and where it is
  std::int64_t num_samples = 1;
  std::int64_t max_new_tokens = 500;
  double temperature = 0.8;
  std::int64_t top_k = 200;
  std::int64_t seed = 1337;
  std::map<std::string, std::string> settings{};  ///< what all ranks must have alike
  std::vector<std::string> notes{};
};

/// Options of `nanofsdp export`.
struct ExportOptions : SavedModel, comm::RanksOptions {
  std::string to;                                 ///< the directory of the files
  DType dtype = DType::float32;                   ///< the dtype of the weights in the files
  std::map<std::string, std::string> settings{};  ///< as of SampleOptions
};

/// Thrown when the arguments hold --help or -h: to be printed on stdout, exit code 0.
struct HelpRequested {
  std::string text;
};

/// @param args what follows `nanofsdp train`
/// @throws UsageError, HelpRequested
TrainOptions parse_train_options(const std::vector<std::string>& args);

/// `nanofsdp eval` is `train --eval_only --init_from=resume`, where `--out_dir` is "out" by
/// default. What decides its numbers is by default as in the run that saved: dataset, batch_size,
/// eval_iters, seed, and the model's sizes anyway.
/// @throws UsageError, HelpRequested
TrainOptions parse_eval_options(const std::vector<std::string>& args);

/// @param args what follows `nanofsdp sample`
/// @throws UsageError, HelpRequested
SampleOptions parse_sample_options(const std::vector<std::string>& args);

/// @param args what follows `nanofsdp export`
/// @throws UsageError, HelpRequested
ExportOptions parse_export_options(const std::vector<std::string>& args);

}  // namespace nanofsdp::cli
