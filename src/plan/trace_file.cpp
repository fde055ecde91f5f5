#include "plan/trace_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "comm/agreement.h"

namespace nanofsdp::plan {
namespace {

using nlohmann::json;

constexpr std::array kLanes = {"compute", "all-gather", "reduce", "wait"};

json name_event(const char* what, int rank, int lane, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

// The events of one rank; times in microseconds of the hosts' clock.
json events(const std::deque<Span>& spans, int rank, Device device) {
  json list = json::array();
  const char* note = spans_say_when_work_ran(device) ? "" : ": when the host issued the GPU's work";
  list.push_back(name_event("process_name", rank, 0, "rank " + std::to_string(rank) + note));
  for (int lane = 0; lane < static_cast<int>(kLanes.size()); ++lane) {
    list.push_back(name_event("thread_name", rank, lane, kLanes[static_cast<std::size_t>(lane)]));
  }
  for (const Span& span : spans) {
    json event = {{"ph", "X"},
                  {"name", span.name},
                  {"pid", rank},
                  {"tid", static_cast<int>(span.lane)},
                  {"ts", span.begin * 1e6},
                  {"dur", (span.end - span.begin) * 1e6}};
    if (span.bytes > 0) event["args"] = {{"bytes", span.bytes}};
    if (span.waits_for > 0) event["name"] = "wait for " + spans[span.waits_for - 1].name;
    list.push_back(std::move(event));
  }
  return list;
}

// Every rank's text, on every rank.
std::vector<std::string> exchange(Context& context, comm::Mesh& mesh, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(mesh.size());
  const auto gather = [&](std::vector<std::int32_t>& mine) {
    std::vector<std::int32_t> all(mine.size() * ranks);
    const auto n = static_cast<std::int64_t>(mine.size());
    comm::gather_on_host(mesh.world(), *context.compute, Tensor(mine.data(), {n}, DType::int32),
                         Tensor(all.data(), {n * mesh.size()}, DType::int32), "trace");
    return all;
  };
  std::vector<std::int32_t> length = {static_cast<std::int32_t>(text.size())};
  const std::vector<std::int32_t> lengths = gather(length);
  const auto longest = static_cast<std::size_t>(*std::ranges::max_element(lengths));
  std::vector<std::int32_t> mine(longest / sizeof(std::int32_t) + 1);
  std::memcpy(mine.data(), text.data(), text.size());
  const std::vector<std::int32_t> all = gather(mine);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto* begin = reinterpret_cast<const char*>(all.data() + rank * mine.size());
    texts.emplace_back(begin, static_cast<std::size_t>(lengths[rank]));
  }
  return texts;
}

// Time begins with the first event.
void write_events(json all, const std::string& path) {
  double start = std::numeric_limits<double>::infinity();
  for (const json& event : all) start = std::min(start, event.value("ts", start));
  for (json& event : all) {
    if (event.contains("ts")) event["ts"] = event["ts"].get<double>() - start;
  }
  std::ofstream file(path);
  file << json{{"traceEvents", std::move(all)}, {"displayTimeUnit", "ms"}}.dump() << '\n';
  file.close();
  if (!file) {
    throw UsageError(
        {.what = "--trace", .expected = "a file that can be written", .got = "'" + path + "'"});
  }
}

}  // namespace

void write_trace(const std::deque<Span>& spans, int rank, const std::string& path) {
  write_events(events(spans, rank, Device::cpu), path);
}

void write_trace(Context& context, comm::Mesh& mesh, const std::string& path) {
  json all = json::array();
  const std::string mine = events(context.tracer.spans(), context.rank, context.device).dump();
  for (const std::string& text : exchange(context, mesh, mine)) {
    for (json& event : json::parse(text)) all.push_back(std::move(event));
  }
  if (context.rank == 0) write_events(std::move(all), path);
}

}  // namespace nanofsdp::plan
