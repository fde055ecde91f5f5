#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "22_your_own_model/llama.h"
#include "gpt/gpt.h"
#include "plan/rehearsal.h"
#include "store/checkpoint.h"
#include "store/weights.h"
#include "support/observed.h"
#include "support/temporary_directory.h"

// A run that loads its state and saves it: on the simulated device the functions of the store do
// all but reading and writing, so every moment takes as much memory as on a real one, to the byte.

namespace llama::files_test {
namespace {

using nanofsdp::testing::Configuration;
using plan::Rehearsal;

// The peaks of all classes, and of all together, after each moment of a run.
using Peaks = std::vector<std::int64_t>;

void add_peaks(Peaks& peaks, const Ledger& ledger) {
  peaks.push_back(ledger.total());
  peaks.push_back(ledger.total_peak());
  for (const MemoryClass c : kMemoryClasses) peaks.push_back(ledger.count(c).reserved_peak);
}

struct Files {
  std::string name;
  std::function<void(Rehearsal&, const std::string&directory)> load, save;
};

const std::vector<Files> kFiles = {
    {"weights",
     [](Rehearsal& run, const std::string& from) { store::load_weights(from, run.model()); },
     [](Rehearsal& run, const std::string& to) {
       run.tape().release();
       store::save_weights(to, run.model(), {});
     }},
    {"a file a rank",
     [](Rehearsal& run, const std::string& from) { store::load_weights(from, run.model()); },
     [](Rehearsal& run, const std::string& to) {
       store::save_sharded_weights(to, run.model(), {});
     }},
    {"checkpoint",
     [](Rehearsal& run, const std::string& from) {
       store::load_checkpoint(from, run.model(), run.optimizer());
     },
     [](Rehearsal& run, const std::string& to) {
       store::save_checkpoint(to, run.model(), run.optimizer(), {});
     }}};

std::unique_ptr<nn::Module> make_model(bool is_llama) {
  if (!is_llama)
    return std::make_unique<gpt::GPT>(
        gpt::GPTConfig{.block_size = 8, .vocab_size = 11, .n_layer = 3, .n_head = 2, .n_embd = 16});
  return std::make_unique<Llama>(Config{.vocab_size = 11,
                                        .hidden_size = 16,
                                        .intermediate_size = 24,
                                        .num_hidden_layers = 3,
                                        .num_attention_heads = 4,
                                        .num_key_value_heads = 2},
                                 linear);
}

fsdp::UnitOptions is_block(const nn::Module& module) {
  return fsdp::is_a<Block>(module) || fsdp::is_a<gpt::Block>(module);
}

// The run of a rank. It loads from `from`, unless that is empty, and saves to `to`.
Peaks peaks_of(Context& context, comm::Mesh& mesh, const Configuration& c, bool is_llama,
               const Files& files, const std::string& from, const std::string& to) {
  const auto model = make_model(is_llama);
  plan::Work work{.rows = {2}, .tokens = 8, .sums = 2, .draws = from.empty()};
  Rehearsal run(context, mesh, *model, c.options, work);
  Peaks peaks;
  if (!from.empty()) files.load(run, from);
  add_peaks(peaks, context.ledger);
  run.step();
  add_peaks(peaks, context.ledger);
  files.save(run, to);
  add_peaks(peaks, context.ledger);
  return peaks;
}

std::vector<Peaks> real_peaks(const Configuration& c, bool is_llama, const Files& files,
                              const std::string& from, const std::string& to) {
  std::vector<Peaks> all(static_cast<std::size_t>(c.ranks));
  comm::launch_threads(c.ranks, 1, [&](Context& context, auto world) {
    comm::Mesh mesh(std::move(world), c.shard_size);
    all[static_cast<std::size_t>(context.rank)] =
        peaks_of(context, mesh, c, is_llama, files, from, to);
  });
  return all;
}

TEST(Files, TakeTheMemoryOnTheSimulatedDeviceThatTheyTakeOnARealOne) {
  for (const bool is_llama : {false, true}) {
    for (const Files& files : kFiles) {
      for (const fsdp::Sharding& s : fsdp::kShardings) {
        for (const int ranks : {2, 4}) {
          for (const DType dtype : {DType::float32, DType::bfloat16}) {
            if (s.replicates && ranks != 4) continue;
            SCOPED_TRACE(fmt::format("{}, {}, {}, {} ranks, {}", is_llama ? "Llama" : "GPT",
                                     files.name, s.name, ranks, name_of(dtype)));
            const Configuration c{.options = {.strategy = s.strategy,
                                              .precision = {dtype, dtype},
                                              .wrap_policy = is_block},
                                  .ranks = ranks,
                                  .shard_size = s.replicates ? 2 : 0};
            const nanofsdp::testing::TemporaryDirectory directory;
            const std::string first = directory.file("a"), next = directory.file("b");
            for (const auto& [from, to] : {std::pair(std::string(), first), {first, next}}) {
              std::filesystem::create_directories(to);
              const std::vector<Peaks> real = real_peaks(c, is_llama, files, from, to);
              EXPECT_FALSE(std::filesystem::is_empty(to));
              for (int rank = 0; rank < ranks; ++rank) {
                plan::SimulatedRank context(rank, ranks, 1, Device::simulated_cpu);
                comm::Mesh mesh = plan::make_simulated_mesh(context, c.shard_size);
                const std::string none = directory.file("none");
                EXPECT_EQ(
                    peaks_of(context, mesh, c, is_llama, files, from.empty() ? "" : none, none),
                    real[static_cast<std::size_t>(rank)])
                    << (from.empty() ? "drawn" : "loaded") << ", rank " << rank;
                EXPECT_FALSE(std::filesystem::exists(none));
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace llama::files_test
