#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/build_info.h"
#include "bench/bench.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/option_kinds.h"
#include "cli/outputs.h"

namespace nanofsdp::cli {

int bench_command(const std::vector<std::string>& args) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bench::BenchOptions options;
  std::string only = "all";
  int threads = cores, ranks = 2;
  std::string machine;
  CommandLine line(
      "nanofsdp bench [--name=value ...]\n\nMeasures operators, collectives and whole training "
      "steps. Leave the machine alone meanwhile.\n");
  line.group("Options");
  line.choose("only", "operators, collectives, steps or all",
              {"all", "operators", "collectives", "steps"},
              [&only](const std::string& section) { only = section; });
  line.add("rows", "only rows whose heading, comma, name contain this", options.rows);
  line.add("rounds", "rounds over which medians are taken", options.rounds, {1, 1e6, "at least 1"});
  line.add("threads", "threads of the operators, beside 1", threads, {1, 1025, "1 to 1024"});
  line.add("ranks", "ranks of the collectives", ranks, {2, 1e6, "at least 2"});
  choose(line, "backend", "gloo (processes) or local (threads), of all ranks", options.backend,
         {{"gloo", comm::Backend::gloo}, {"local", comm::Backend::local}});
  add_transport(line, options.transport);
  line.add("machine",
           "instead: a file for what plan --machine asks of this computer, measured in a minute",
           machine);
  line.parse(args);
  if (!machine.empty()) {
    // Checks that the file can be written, and keeps its text until the end.
    write_text("--machine", machine, "", std::ios::app);
    write_text("--machine", machine, bench::bench_machine(options));
    return 0;
  }
  fmt::print("{}, {} cores; medians of {} rounds\n", build_info(), cores, options.rounds);
  // These fork processes, so they come first, while this process has no threads.
  if (only == "all" || only == "steps") bench::bench_steps(options);
  if (only == "all" || only == "collectives") bench::bench_collectives(options, ranks);
  for (const int width : {1, threads}) {
    if (only == "all" || only == "operators") bench::bench_operators(options, width);
    if (threads == 1) break;
  }
  return 0;
}

}  // namespace nanofsdp::cli
