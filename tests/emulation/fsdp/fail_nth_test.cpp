#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <regex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/transfer.h"
#include "comm/local.h"
#include "comm/mesh.h"
#include "comm/nccl.h"
#include "cuda_runtime.h"
#include "faults.h"
#include "fsdp/adamw.h"
#include "fsdp/deferred_init.h"
#include "fsdp/fully_shard.h"
#include "gpt/block.h"
#include "gpt/gpt.h"
#include "launch/party.h"
#include "nn/loss.h"
#include "store/checkpoint.h"
#include "support/temporary_directory.h"

// The n-th call of CUDA, cuBLASLt or NCCL fails in one rank of a small training that saves and
// loads. Every rank then ends in time with an error, or all end as if nothing had happened. Nothing
// of CUDA's or NCCL's is left, and what was saved is whole. All later calls of the rank may fail,
// too, so destructors meet errors while an error passes through them.

namespace nanofsdp::testing {
namespace {

constexpr int kRanks = 2;
constexpr auto kPatience = 30s;  // no rank may wait so long for one that has failed
constexpr gpt::GPTConfig kModel{
    .block_size = 3, .vocab_size = 5, .n_layer = 1, .n_head = 1, .n_embd = 8, .bias = false};

/// A model of one rank, and its optimizer.
struct Training {
  Training(Context& the_context, std::unique_ptr<comm::Communicator> world)
      : context(the_context), mesh(std::move(world)) {}

  /// Makes a step from one row of tokens.
  void step() {
    std::vector<std::int32_t> drawn{0, 1, 2, 1, 2, 3};
    for (std::int32_t& token : drawn) token = (token + context.rank) % kModel.vocab_size;
    const Buffer memory = context.buffer(MemoryClass::activations, 6, DType::int32);
    const Buffer loss = context.buffer(MemoryClass::activations, 1, DType::float64);
    const Tensor tokens = memory.tensor({6}, DType::int32);
    transfer(*context.compute, Tensor(drawn.data(), {6}, DType::int32), tokens);
    const auto half = [&](int i) { return tokens.slice(3 * i, 3).view({1, 3}); };
    sharded.zero_grad();
    tape.begin(/*training=*/true);
    nn::cross_entropy(tape, sharded.forward(tape, half(0)), half(1),
                      loss.tensor({1}, DType::float64));
    sharded.backward(tape, nn::cross_entropy_backward(tape, 1.0f / (3 * kRanks)));
    optimizer.step(1e-2, sharded.clip(0.5));
    std::vector<double> room;
    on_host<double>(*context.compute, loss.tensor({1}, DType::float64), room);
  }

  void copy_weights(std::span<float> to) {
    std::vector<float> room;
    sharded.summon_full_parameters([&](const nn::Parameter& parameter) {
      const auto whole = on_host<float>(*context.compute, parameter.data, room);
      std::ranges::copy(whole, to.begin());
      to = to.subspan(whole.size());
    });
  }

  Context& context;
  comm::Mesh mesh;
  gpt::GPT model{kModel};
  fsdp::ShardedModel sharded{
      context,
      model,
      mesh,
      {.reduction = comm::ReduceOp::sum, .wrap_policy = fsdp::is_a<gpt::Block>}};
  nn::Tape tape{context};
  fsdp::AdamW optimizer{context, sharded.units(), {}};
};

/// The weights after each of three steps. Processes can share them.
using Weights = std::array<std::array<float, 1024>, 3>;

/// Two steps, each saved, and one more after a load. Returns the weights after each.
Weights train(Context& context, std::unique_ptr<comm::Communicator> world,
              const std::string& directory) {
  Training t(context, std::move(world));
  Generator generator(1);
  fsdp::deferred_init(context, t.sharded.units(), t.model.nanogpt_draws(), generator);
  Weights seen{};
  for (int step = 0; step < 3; ++step) {
    if (step == 2) store::load_checkpoint(directory, t.sharded, t.optimizer);
    t.step();
    t.copy_weights(seen[step]);
    if (step == 2) continue;
    store::save_checkpoint(directory, t.sharded, t.optimizer, {{"step", std::to_string(step)}});
  }
  // The other ranks have read the memory that is freed now.
  for (Stream* used : {context.compute.get(), context.gather.get(), context.reduce.get()})
    used->synchronize();
  return seen;
}

/// The results of one run. The ranks are threads.
struct Outcome {
  std::vector<std::string> errors = std::vector<std::string>(kRanks);
  std::string told{};    // the error of the run
  bool threads = false;  // whether a rank may end before the others have
  std::array<long, kRanks> calls{};
  Weights weights{};  // rank 0's
  long left = 0;      // objects of CUDA and NCCL that still exist
};

struct Fault {
  int rank = 0;
  long n = 0;          // 0: none
  bool later = false;  // whether all later calls fail, too
};

/// The work of a rank.
using Body = std::function<void(Context&, std::unique_ptr<comm::Communicator>)>;

/// How the ranks are connected.
using Connect = void (*)(const Body& body, const Fault& fault, Outcome& outcome);

void by_threads(const Body& body, const Fault& fault, Outcome& outcome) {
  outcome.threads = true;
  try {
    comm::launch_threads(kRanks, 1,
                         [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                           try {
                             emulation::fail_nth(context.rank == fault.rank ? fault.n : 0,
                                                 fault.later);
                             body(context, std::move(world));
                           } catch (const std::exception& error) {
                             outcome.errors[context.rank] = error.what();
                             throw;
                           }
                         },
                         {.timeout = kPatience, .device = Device::cuda});
  } catch (const std::exception& error) {
    outcome.told = error.what();
  }
}

void by_nccl(const Body& body, const Fault& fault, Outcome& outcome) {
  Party(kRanks).everybody([&](Store& store) {
    emulation::fail_nth(store.rank() == fault.rank ? fault.n : 0, fault.later);
    try {
      Context context(store.rank(), kRanks, 1, Device::cuda);
      body(context,
           comm::make_nccl(context, store, {.timeout = kPatience, .connect_timeout = kPatience}));
      store.leave(kPatience);
    } catch (const std::exception& error) {
      outcome.errors[store.rank()] = error.what();
      store.fail(error.what());
      if (store.rank() == fault.rank) outcome.told = error.what();
    }
  });
}

Outcome run(Connect connect, const std::string& directory, const Fault& fault) {
  Outcome outcome;
  const long before = emulation::alive;
  emulation::has_failed = false;
  const auto body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    const Weights seen = train(context, std::move(world), directory);
    if (context.rank == 0) outcome.weights = seen;
    outcome.calls[context.rank] = emulation::counted();
  };
  connect(body, fault, outcome);
  outcome.left = emulation::alive - before;
  return outcome;
}

/// The results of a run in which no call fails. Processes share them.
struct Healthy {
  std::array<long, kRanks> calls{};
  Weights weights{};
};

/// The fault of the checkpoint in a directory, or nothing. One rank on the CPU loads it.
std::string fault_of_checkpoint(const std::string& directory, const Healthy& healthy) {
  if (!std::filesystem::exists(store::checkpoint_path(directory) / "manifest.json")) return "";
  try {
    Context context;
    Training t(context, comm::make_self());
    const auto kept = store::load_checkpoint(directory, t.sharded, t.optimizer);
    Weights loaded{};
    t.copy_weights(loaded[0]);
    const bool same = loaded[0] == healthy.weights[std::stoi(kept.at("step"))];
    return same ? "" : "other weights were saved";
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// The fault of a run in which the n-th call of a rank has failed, or nothing.
std::string fault_of(const Outcome& got, const Healthy& healthy, const Fault& fault) {
  const std::string &own = got.errors[fault.rank], &other = got.errors[1 - fault.rank];
  for (const std::string& error : got.errors) {
    if (error.find("in vain") != error.npos) return "a rank has waited for one that has failed";
  }
  if (got.left != 0) return std::to_string(got.left) + " objects are left";
  if (got.told.empty()) {
    return got.weights == healthy.weights ? "" : "other weights, and no error";
  }
  if (got.told != own) return "the run tells another error: " + got.told;
  static const std::regex of_library("CUDA|cuBLAS|NCCL|GPU");
  if (!std::regex_search(own, of_library)) return "the error does not say what failed";
  if (other.empty()) return got.threads ? "" : "a rank has no error";
  const bool says = other.find("rank " + std::to_string(fault.rank)) != other.npos;
  return says ? "" : "the other rank does not say who failed";
}

constexpr int kTold = 0, kHarmless = 3;  // exit codes of a trial

/// Each run is a process of its own, so a crash is the miss of one call.
[[noreturn]] void try_in_child(Connect connect, const Healthy& healthy, const Fault& fault) {
  alarm(100);
  const auto [wrong, got] = [&] {
    const TemporaryDirectory directory;
    const Outcome got = run(connect, directory.file("out"), fault);
    std::string wrong = fault_of(got, healthy, fault);
    if (wrong.empty()) wrong = fault_of_checkpoint(directory.file("out"), healthy);
    return std::pair(wrong, got);
  }();
  if (wrong.empty()) std::exit(got.told.empty() ? kHarmless : kTold);
  std::cerr << wrong << "\n  0: " << got.errors[0] << "\n  1: " << got.errors[1] << "\n";
  std::exit(1);
}

[[noreturn]] void run_in_child(Connect connect, Healthy& healthy) {
  const TemporaryDirectory directory;
  const Outcome got = run(connect, directory.file("out"), {});
  healthy = {got.calls, got.weights};
  std::filesystem::remove_all(directory.file("out"));
  try_in_child(connect, healthy, {});
}

// GoogleTest runs suites of this name first. A child can only use CUDA if its parent has not.
class FailNthDeathTest : public ::testing::TestWithParam<std::tuple<Connect, bool>> {};

// The variable NANOFSDP_EVERY=1 tries every call, and NANOFSDP_FIRST begins with a later one.
TEST_P(FailNthDeathTest, EndsWithOneErrorEverywhereAndLeavesNothing) {
  const auto number = [](const char* variable, long otherwise) {
    const char* const value = std::getenv(variable);
    return value != nullptr ? std::atol(value) : otherwise;
  };
  const auto [connect, later] = GetParam();
  void* const memory =
      mmap(nullptr, sizeof(Healthy), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Healthy& healthy = *new (memory) Healthy;
  ASSERT_EXIT(run_in_child(connect, healthy), ::testing::ExitedWithCode(kHarmless), "");
  int points = 0, harmless = 0;
  const auto judge = [&](int status) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    harmless += code == kHarmless ? 1 : 0;
    return code == kHarmless || code == kTold;
  };
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_GT(healthy.calls[rank], 100);
    for (long n = number("NANOFSDP_FIRST", 1); n <= healthy.calls[rank];
         n += number("NANOFSDP_EVERY", 23), ++points) {
      EXPECT_EXIT(try_in_child(connect, healthy, {rank, n, later}), judge, "")
          << "call " << n << " of rank " << rank;
    }
  }
  std::cout << points << " points, " << harmless << " harmless\n";
}

INSTANTIATE_TEST_SUITE_P(Emulated, FailNthDeathTest,
                         ::testing::Combine(::testing::Values(by_threads, by_nccl),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           const bool nccl = std::get<0>(info.param) == by_nccl;
                           return std::string(nccl ? "Nccl" : "Threads") +
                                  (std::get<1>(info.param) ? "AndAllLater" : "");
                         });

}  // namespace
}  // namespace nanofsdp::testing
