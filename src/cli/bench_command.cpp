#include <fmt/format.h>

#include "base/build_info.h"
#include "base/platform.h"
#include "bench/bench.h"
#include "cli/commands.h"
#include "cli/option_kinds.h"
#include "cli/outputs.h"

namespace nanofsdp::cli {

int bench_command(const std::vector<std::string>& args) {
  const int cores = count_cores();
  bench::BenchOptions options;
  std::string only = "all", machine;
  int threads = cores, ranks = 2;
  CommandLine line("bench");
  line.choose("only", {"all", "operators", "collectives", "steps"},
              [&only](const std::string& section) { only = section; });
  line.add("rows", options.rows);
  line.add("rounds", options.rounds, {1, 1e6, "at least 1"});
  line.add("threads", threads, {1, 1025, "1 to 1024"});
  line.add("ranks", ranks, {2, kProcesses.end, "at least 2 and at most 1024"});
  choose(line, "backend", options.backend,
         {{"gloo", comm::Backend::gloo}, {"local", comm::Backend::local}});
  add_transport(line, options.transport);
  line.add("machine", machine);
  line.parse(args);
  if (!machine.empty()) {
    for (const char* name : {"only", "rows", "threads", "ranks"})
      require(!line.given(name), name, "nothing beside --machine", line.value(name));
    require_output("--machine", machine, bench::kMeasured);
    write_text("--machine", machine, bench::bench_machine(options));
    return 0;
  }
  fmt::print("{}; cores: {}; rounds for each median: {}\n", build_info(), cores, options.rounds);
  const auto wanted = [&](const char* section) { return only == "all" || only == section; };
  std::size_t rows = 0;
  // These fork processes, so they come first, while this process has no threads.
  if (wanted("steps")) rows += bench::bench_steps(options).size();
  if (wanted("collectives")) rows += bench::bench_collectives(options, ranks).size();
  if (wanted("operators")) rows += bench::bench_operators(options, 1).size();
  if (wanted("operators") && threads > 1) rows += bench::bench_operators(options, threads).size();
  require(rows > 0, "rows", "a part of \"title, name\" of a row", "'" + options.rows + "'",
          "without --rows all are printed");
  return 0;
}

}  // namespace nanofsdp::cli
