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
/// @brief What the options of several commands have in common; and all options of train, which eval
/// and plan take, too.

inline constexpr double kAny = std::numeric_limits<double>::infinity();

// Such that a product of three sizes does not overflow.
inline constexpr Range kSize{1, 1'000'001, "at least 1 and at most 1000000"};
inline constexpr Range kLayers{1, 1001, "at least 1 and at most 1000"};
inline constexpr Range kProcesses{1, 1025, "at least 1 and at most 1024"};
inline constexpr Range kCount{1, 1e12, "at least 1 and less than 1e12"};
inline constexpr Range kNoneOrMore{0, kAny, "0 or more"};
inline constexpr Range kFraction{0, 1 - 0x1p-25, "a number in [0, 1)"};  // in float32, too
inline constexpr Range kTemperature{1e-6, kAny, "at least 1e-6"};
inline constexpr Range kPositive{std::numeric_limits<double>::min(), kAny, "more than 0"};

/// Throws unless `holds`. Numbers print as they would be typed.
template <class T>
void require(bool holds, const char* name, const std::string& expected, const T& got,
             const std::string& hint = {}) {
  NANOFSDP_REFUSE_IF(!holds, .what = std::string("--") + name, .expected = expected,
                     .got = fmt::format("{}", got), .hint = hint);
}

/// An option that is one of a few words, each with a meaning. The default is what `target` is now.
template <class T>
void choose(CommandLine& line, const char* name, const char* help, T& target,
            const std::vector<std::pair<std::string, T>>& meanings) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : meanings) words.push_back(word);
  const auto set = [=, &target](const std::string& word) {
    target = meanings[std::ranges::find(words, word) - words.begin()].second;
  };
  const auto usual = std::ranges::find(meanings, target, &std::pair<std::string, T>::second);
  line.choose(name, help, words, set, usual->first);
}

/// Notes that an option does nothing, and why.
void note(std::vector<std::string>& notes, const std::string& name, const std::string& value,
          const std::string& why);

/// nanoGPT's options that do nothing here; one that asks for something leaves a note.
void add_ignored(CommandLine& line, std::vector<std::string>& notes);

/// --init_from, of which `own` are the words for models of our own, the default first; and
/// --pretrained.
void add_init_from(CommandLine& line, const std::vector<std::string>& own, const std::string& help,
                   std::string& init_from, std::string& pretrained);

/// A model that is not GPT-2's has no --pretrained.
/// @throws UsageError if it has
void require_no_pretrained(const std::string& pretrained);

/// --device. @throws UsageError if it is to be used here and is not there
void add_device(CommandLine& line, Device& target, bool used_here = true);

/// Gloo moves the host's memory, NCCL the GPU's: unless --backend is given, the device decides.
/// @throws UsageError for the other one's, and for NCCL's ring without NCCL
void settle_backend(CommandLine& line, comm::RanksOptions& o);

/// The model's sizes.
void add_sizes(CommandLine& line, TrainOptions& o);

/// How it is sharded, and what of it is short.
void add_sharding(CommandLine& line, TrainOptions& o);

/// --recompute: what backward computes again.
void add_recompute(CommandLine& line, gpt::Recompute& recompute);

/// --backward_prefetch: when backward gathers the next unit.
void add_backward_prefetch(CommandLine& line, TrainOptions& o);

/// What of the sharding the strategy's name does not say; "" or begins with a comma.
std::string sharding_details(const TrainOptions& o);

/// After parse(). --strategy and --zero name the sharding in two ways: one may be given.
/// hybrid_shard in one group, or in groups of one, has a plainer name.
/// @throws UsageError
void settle_strategy(TrainOptions& o, CommandLine& line);

/// After parse(). --text and --dataset name a text in two ways: one may be typed. A text outdoes
/// the dataset of a config file; a dataset that is typed outdoes the text of a config file.
/// @throws UsageError
void settle_text(TrainOptions& o, CommandLine& line);

/// --backend: how ranks are connected.
void add_backend(CommandLine& line, Backend& target);
/// --transport: what carries the bytes of the backend gloo.
void add_transport(CommandLine& line, comm::Transport& target);

/// How many ranks, and how they are connected.
void add_ranks(CommandLine& line, comm::RanksOptions& o);

/// All options of a training. They set `o`, which holds the defaults now and outlives the line.
/// @param init_from its words for models of our own, the default first
CommandLine train_command_line(TrainOptions& o, const char* usage,
                               const std::vector<std::string>& init_from);

}  // namespace nanofsdp::cli
