#include "train/option_kinds.h"

#include <algorithm>
#include <thread>

namespace nanofsdp::train {
namespace {

/// nanoGPT's options that do nothing here. Another word than the first is worth a note.
struct Ignored {
  const char* name;
  std::vector<std::string> words;
  const char* note;
};
const std::vector<Ignored> kIgnored = {
    {"compile", {"False", "True"}, "the program is compiled already"},
    {"dtype", {"float32", "bfloat16", "float16"}, "the CPU computes in float32"},
    {"wandb_log", {"False", "True"}, "see --metrics=FILE"}};

int threads_for(int asked, int ranks) {
  if (asked > 0) return asked;
  const int cores = static_cast<int>(std::thread::hardware_concurrency());  // 0 if unknown
  return std::max(1, cores / ranks);
}

}  // namespace

void add_ignored(CommandLine& line, std::vector<std::string>& notes) {
  for (const Ignored& option : kIgnored) {
    line.choose(option.name, "no effect", option.words, "", [&](const std::string& value) {
      if (value == option.words[0]) return;
      notes.push_back(
          fmt::format("--{}={} does nothing here: {}", option.name, value, option.note));
    });
  }
}

void add_init_from(CommandLine& line, const std::vector<std::string>& own, const std::string& help,
                   std::string& init_from, std::string& pretrained) {
  std::vector<std::string> words = own;
  words.insert(words.end(), {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"});
  line.choose("init_from", help + "; or gpt2, gpt2-medium, gpt2-large, gpt2-xl", words, "",
              [&](const std::string& value) { init_from = value; });
  line.add("pretrained", "gpt2's directory of Hugging Face; default data/gpt2, by its name (ours)",
           pretrained);
}

void require_no_pretrained(const std::string& pretrained) {
  require(pretrained.empty(), "pretrained", "nothing without --init_from=gpt2",
          "'" + pretrained + "'");
}

void add_device(CommandLine& line, Device& target) {
  line.choose("device", "cpu or cuda", {"cpu", "cuda"}, "", [&target](const std::string& value) {
    target = value == "cuda" ? Device::cuda : Device::cpu;
    const std::string problem = why_not(target);
    if (problem.empty()) return;
    throw UsageError({.what = "--device", .expected = "cpu", .got = value, .hint = problem});
  });
}

void settle_backend(CommandLine& line, Device device, Backend& backend) {
  const bool on_cuda = device == Device::cuda;
  if (on_cuda && !line.given("backend")) backend = Backend::nccl;
  require(backend != (on_cuda ? Backend::gloo : Backend::nccl), "backend",
          fmt::format("{} or local with --device={}", on_cuda ? "nccl" : "gloo",
                      on_cuda ? "cuda" : "cpu"),
          name_of(backend));
}

template <class Options>
void add_ranks(CommandLine& line, Options& o) {
  line.add("ranks", "how many share the work", o.ranks, kProcesses);
  line.choose("backend", "gloo or nccl (processes; the CPU's or CUDA's), or local (threads)",
              {"gloo", "nccl", "local"}, "", [&o](const std::string& name) {
                using enum Backend;
                o.backend = name == "gloo" ? gloo : name == "nccl" ? nccl : local;
              });
  line.add("threads", "of each rank; 0: cores / ranks", o.threads, {0, 1025, "0 to 1024"});
  line.add("timeout",
           "seconds that a rank waits for a message; five times that for all ranks to come",
           o.timeout, {1, 86401, "1 to 86400"});
}

template void add_ranks(CommandLine&, TrainOptions&);
template void add_ranks(CommandLine&, SampleOptions&);

int threads_per_rank(const TrainOptions& options, int local_ranks) {
  return threads_for(options.threads, local_ranks > 0 ? local_ranks : options.ranks);
}

int threads_per_rank(const SampleOptions& options, int local_ranks) {
  return threads_for(options.threads, local_ranks > 0 ? local_ranks : options.ranks);
}

}  // namespace nanofsdp::train
