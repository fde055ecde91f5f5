#pragma once

#include <memory>

#include "comm/run_ranks.h"
#include "gpt/config.h"
#include "nn/module.h"
#include "plan/plan.h"
#include "train/options.h"

namespace nanofsdp::bench {

/// @file
/// @brief What the options of a training mean to the planner.

/// A GPT that computes again in backward what `recompute` says of it.
std::unique_ptr<nn::Module> planned_gpt(const gpt::GPTConfig& config, gpt::Recompute recompute);

/// One rank of the training, on a simulated device.
/// @param ranks how many there are, and how they are connected
/// @param threads of its compute stream
/// @param device simulated_cpu or simulated_cuda
/// @param sharers so many ranks that follow each other share memory; 1: none do
plan::Run planned_run(const train::TrainerOptions& options, const comm::RanksOptions& ranks,
                      int rank, int threads, Device device, int sharers);

}  // namespace nanofsdp::bench
