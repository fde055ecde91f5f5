#include "cli/trace_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace nanofsdp::cli::trace_file_test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::Backend;

// Each span is an event of its rank and lane, in microseconds from the first span of any rank.
TEST(TraceFile, HasEverySpanOfEveryRankInMicroseconds) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.file("trace.json");
  for (const int world : {1, 2, 3}) {
    std::vector<std::deque<Span>> spans(static_cast<std::size_t>(world));
    testing::run_ranks(world == 1 ? Backend::self : Backend::local, world,
                       [&](Context& context, std::unique_ptr<comm::Communicator> group) {
                         comm::Mesh mesh(std::move(group));
                         context.tracer.start();
                         for (const Lane lane : {Lane::compute, Lane::all_gather, Lane::reduce}) {
                           const std::size_t span =
                               context.tracer.begin(*context.compute, lane, "some work");
                           context.compute->enqueue([] { std::this_thread::sleep_for(2ms); });
                           context.tracer.end(*context.compute, span);
                         }
                         context.tracer.stop();
                         context.compute->synchronize();
                         spans[static_cast<std::size_t>(context.rank)] = context.tracer.spans();
                         write_trace(context, mesh, path);
                       });
    double start = spans[0][0].begin;
    for (const auto& of_rank : spans) start = std::min(start, of_rank[0].begin);
    std::vector<std::size_t> seen(spans.size());
    const json trace = json::parse(testing::read_file(path));
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const auto rank = event.at("pid").get<std::size_t>();
      const Span& span = spans.at(rank).at(seen.at(rank)++);
      EXPECT_EQ(event.at("tid"), static_cast<int>(span.lane));
      EXPECT_NEAR(event.at("ts"), 1e6 * (span.begin - start), 1);
      EXPECT_NEAR(event.at("dur"), 1e6 * (span.end - span.begin), 1);
    }
    EXPECT_EQ(seen, std::vector<std::size_t>(spans.size(), 3));
  }
}

// However short a run is, and whatever it does between its steps, the trace has steps and nothing
// else: the forward of two units, three times.
TEST(TraceFile, OfARunHasItsStepsAndNothingElse) {
  const testing::TemporaryDirectory directory;
  for (const int steps : {1, 2, 3, 4, 13, 14}) {
    testing::output_of(directory,
                       {"train", "--n_layer=1", "--n_head=1", "--n_embd=8", "--block_size=8",
                        "--batch_size=2", "--eval_iters=5", "--eval_interval=12", "--sample=0",
                        "--trace=t", "--max_iters=" + std::to_string(steps)});
    const json trace = json::parse(testing::read_file(directory.file("t")));
    const auto forwards = std::ranges::count_if(trace.at("traceEvents"), [](const json& event) {
      return event.at("name").get<std::string>().starts_with("forward");
    });
    EXPECT_EQ(forwards, 2 * std::min(steps, 3)) << steps;
  }
}

}  // namespace
}  // namespace nanofsdp::cli::trace_file_test
