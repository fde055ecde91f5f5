#pragma once

/// @file
/// @brief All that a program needs which shards a model of its own.
///
///     #include <nanofsdp/nanofsdp.h>
///
/// lessons/library.md has such a program. Not here, because most have no use for them: nanoGPT
/// (gpt/gpt.h), texts and tokens (data/dataset.h), ranks that are threads (comm/local.h).

#include "base/buffer.h"
#include "base/check.h"
#include "base/context.h"
#include "base/fingerprint.h"
#include "base/rng.h"
#include "base/tensor.h"
#include "base/transfer.h"
#include "base/version.h"
#include "comm/agreement.h"
#include "comm/communicator.h"
#include "comm/mesh.h"
#include "comm/run_ranks.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "fsdp/grad_norm.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/layer_norm.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/module.h"
#include "nn/tape.h"
#include "ops/attention.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/matmul.h"
#include "store/checkpoint.h"
#include "store/weights.h"
