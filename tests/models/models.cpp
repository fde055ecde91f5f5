#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

#include "models/code.h"
#include "models/generate.h"
#include "models/run.h"
#include "models/shrink.h"
#include "models/watchdog.h"

// Runs any number of random models under FSDP: `make models ARGS="--seed=1 --models=10000"`. It
// shrinks and prints the first model that fails, and then the exit code is 1.

namespace {

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t models = 1000;
  std::uint64_t times = 1;  // number of runs of each model, because one run may hide a race
  models::Backend backend = models::Backend::local;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t value = argument.find('=') + 1;
    if (argument.starts_with("--seed=")) {
      options.seed = std::stoull(argument.substr(value));
    } else if (argument.starts_with("--models=")) {
      options.models = std::stoull(argument.substr(value));
    } else if (argument.starts_with("--times=")) {
      options.times = std::stoull(argument.substr(value));
    } else if (argument == "--backend=shared") {
      options.backend = models::Backend::shared;
    } else {
      throw std::invalid_argument(
          "models: expected --seed=, --models=, --times= or --backend=shared, got " + argument);
    }
  }
  return options;
}

std::string run_often(const models::Program& program, std::uint64_t times, models::Backend backend,
                      models::Patience patience = std::chrono::seconds(5)) {
  // Needs a thread, and processes are forked while there is none.
  std::optional<models::Watchdog> watchdog;
  if (backend == models::Backend::local) watchdog.emplace(program);
  std::string words;
  for (std::uint64_t i = 0; i < times && words.empty(); ++i) {
    words = models::run(program, patience, backend);
  }
  return words;
}

void print_shrunk(const models::Program& program, std::uint64_t times, models::Backend backend) {
  const auto fails = [&](const models::Program& smaller) {
    return !run_often(smaller, times, backend, std::chrono::seconds(1)).empty();
  };
  const models::Program smallest = models::shrink(program, fails);
  fmt::print("{}{}\n", models::code_of(smallest), run_often(smallest, times, backend));
}

int run_all(const Options& options) {
  for (std::uint64_t i = 0; i < options.models; ++i) {
    models::Program program = models::generate(options.seed + i);
    if ((options.seed + i) % 5 == 0) program = models::plain(program);  // makes its traffic known
    const std::string words = run_often(program, options.times, options.backend);
    if (!words.empty()) {
      fmt::print("seed {}: {}\n{}shrinking ...\n", options.seed + i, words,
                 models::code_of(program));
      std::fflush(stdout);
      print_shrunk(program, options.times + 2, options.backend);
      return 1;
    }
    if ((i + 1) % 1000 == 0) fmt::print("{} models\n", i + 1);
    std::fflush(stdout);
  }
  fmt::print("{} models from seed {}: each equals its reference\n", options.models, options.seed);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_all(parse(argc, argv));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
