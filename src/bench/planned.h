#pragma once

#include <memory>

#include "comm/run_ranks.h"
#include "nn/module.h"
#include "plan/plan.h"
#include "train/options.h"

namespace nanofsdp::bench {

/// @file
/// @brief Turns the options of a training into a run for the planner.

/// Makes a GPT that computes again in backward what `recompute` asks for.
std::unique_ptr<nn::Module> planned_gpt(const gpt::GPTConfig& config, gpt::Recompute recompute);

/// The run of one rank of the training, on a simulated device.
/// @param ranks the number of ranks, and how they are connected
/// @param threads of its compute stream
/// @param device simulated_cpu or simulated_cuda
/// @param sharers number of consecutive ranks that share memory; 1: no ranks do
plan::Run planned_run(const train::TrainerOptions& options, const comm::RanksOptions& ranks,
                      int rank, int threads, Device device, int sharers);

}  // namespace nanofsdp::bench
