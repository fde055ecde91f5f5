#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/command_line.h"
#include "cli/options.h"

namespace nanofsdp::cli {

/// @file
/// @brief Options that several commands share, and all options of train, which eval and plan have
/// too.

inline constexpr double kAny = std::numeric_limits<double>::infinity();

// A product of three such sizes does not overflow.
inline constexpr Range kSize{1, 1'000'001, "at least 1 and at most 1000000"};
inline constexpr Range kLayers{1, 1001, "at least 1 and at most 1000"};
inline constexpr Range kProcesses{1, 1025, "at least 1 and at most 1024"};
inline constexpr Range kCount{1, 1e12, "at least 1 and less than 1e12"};
inline constexpr Range kNoneOrMore{0, kAny, "0 or more"};
inline constexpr Range kFraction{0, 1 - 0x1p-25, "a number in [0, 1)"};  // also in float32
inline constexpr Range kTemperature{1e-6, kAny, "at least 1e-6"};
inline constexpr Range kPositive{std::numeric_limits<double>::min(), kAny, "more than 0"};

/// Throws unless `holds`. Numbers are printed as the user would type them.
template <class T>
void require(bool holds, const std::string& name, const std::string& expected, const T& got,
             const std::string& hint = {}) {
  NANOFSDP_REFUSE_IF(!holds, .what = "--" + name, .expected = expected,
                     .got = fmt::format("{}", got), .hint = hint);
}

/// Adds an option that is one of a few words, each with a meaning. The default is the present value
/// of `target`.
template <class T>
void choose(CommandLine& line, const char* name, T& target,
            const std::vector<std::pair<std::string, T>>& meanings) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : meanings) words.push_back(word);
  const auto set = [=, &target](const std::string& word) {
    target = meanings[std::ranges::find(words, word) - words.begin()].second;
  };
  const auto usual = std::ranges::find(meanings, target, &std::pair<std::string, T>::second);
  line.choose(name, words, set, usual->first);
}

/// Notes that an option does nothing, and why.
void note(std::vector<std::string>& notes, const std::string& name, const std::string& value,
          const std::string& why);

/// Adds nanoGPT's options that do nothing here. If one of them asks for something, it adds a note.
void add_ignored(CommandLine& line, std::vector<std::string>& notes);

/// Adds --init_from and --pretrained. `own` are the words of --init_from for our own models; the
/// default comes first.
void add_init_from(CommandLine& line, const std::vector<std::string>& own, std::string& init_from,
                   std::string& pretrained);

/// Call it after parse(). Only GPT-2's models have a --pretrained; its default is data/ and the
/// name of the model.
/// @throws UsageError if --pretrained is given for another model
void settle_pretrained(const std::string& init_from, std::string& pretrained);

/// Adds --device. @throws UsageError if the device does not exist
void add_device(CommandLine& line, Device& target);

/// Chooses the backend, unless --backend is given: Gloo for the host's memory, NCCL for GPUs.
/// @throws UsageError for the other one's device, and for NCCL's ring without NCCL
void settle_backend(CommandLine& line, comm::RanksOptions& o);

/// The line that describes the sharding. If the strategy shards nothing, no shard has a size.
/// @param strategy on one rank, another one than the options name
/// @param units    their number or their groups, in words
std::string sharding_line(const TrainOptions& o, fsdp::ShardingStrategy strategy,
                          const std::string& units, std::int64_t shard, std::int64_t padding);

/// Whether a step reduces gradients once, with or without --no_sync.
bool reduces_once(const TrainOptions& o);

/// Call it after parse(). A hybrid strategy in one group, or in groups of one, has a simpler name.
/// If a step reduces once, no_sync is switched off.
/// @throws UsageError
void settle_strategy(TrainOptions& o);

/// Call it after parse(). --text and --dataset both name a text, so only one may be typed. A text
/// comes before the dataset of a config file, and a typed dataset before the text of a config file.
/// @throws UsageError
void settle_text(TrainOptions& o, CommandLine& line);

/// Adds --transport, which says how the backend gloo sends bytes.
void add_transport(CommandLine& line, comm::Transport& target);

/// Adds the options of the ranks: their number, and how they are connected.
void add_ranks(CommandLine& line, comm::RanksOptions& o);

/// Adds all options of a training that the line lacks. They set `o`, which holds the defaults now
/// and outlives the line.
/// @param init_from its words for our own models; the default comes first
void add_training(CommandLine& line, TrainOptions& o, const std::vector<std::string>& init_from);

}  // namespace nanofsdp::cli
