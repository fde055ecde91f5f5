#include "cli/trace_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>
#include <vector>

#include "base/json.h"
#include "cli/outputs.h"
#include "comm/agreement.h"

namespace nanofsdp::cli {
namespace {

using nlohmann::json;

constexpr std::array kLanes = {"compute", "all-gather", "reduce", "wait"};

json name_event(const char* what, int rank, int lane, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

// The events of one rank, with times in microseconds of the hosts' clock.
json events(const std::deque<Span>& spans, int rank, Device device) {
  json list = json::array();
  const char* note = spans_say_when_work_ran(device) ? "" : ": when the host issued the GPU's work";
  list.push_back(name_event("process_name", rank, 0, "rank " + std::to_string(rank) + note));
  for (int lane = 0; const char* name : kLanes)
    list.push_back(name_event("thread_name", rank, lane++, name));
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

// Gives every rank the texts of all ranks, one behind the other. Blanks make them equally long.
std::string exchange(Context& context, comm::Mesh& mesh, std::string text) {
  const auto gather = [&](void* mine, std::int64_t n) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(n * mesh.size()));
    comm::gather_on_host(mesh.world(), *context.compute, Tensor(mine, {n}, DType::int32),
                         Tensor(all.data(), {n * mesh.size()}, DType::int32), "trace");
    return all;
  };
  auto words = static_cast<std::int32_t>(text.size() / sizeof(std::int32_t) + 1);
  words = std::ranges::max(gather(&words, 1));
  text.resize(static_cast<std::size_t>(words) * sizeof(std::int32_t), ' ');
  const std::vector<std::int32_t> all = gather(text.data(), words);
  return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(std::int32_t)};
}

// Writes the events, with times that begin at `start` seconds, or at the first one if it is
// earlier.
void write_events(json all, const std::string& path, double start = 1e300) {
  start *= 1e6;
  for (const json& event : all) start = std::min(start, event.value("ts", start));
  for (json& event : all)
    if (event.contains("ts")) event["ts"] = event["ts"].get<double>() - start;
  const json trace = {{"traceEvents", std::move(all)}, {"displayTimeUnit", "ms"}};
  write_text("--trace", path, trace.dump() + "\n");
}

}  // namespace

void write_trace(const std::deque<Span>& spans, double start, int rank, const std::string& path) {
  write_events(events(spans, rank, Device::cpu), path, start);
}

void write_trace(Context& context, comm::Mesh& mesh, const std::string& path) {
  const json mine = events(context.tracer.spans(), context.rank, context.device);
  std::istringstream texts(exchange(context, mesh, mine.dump()));
  json all = json::array(), of_rank;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    texts >> of_rank;
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  if (context.rank > 0) return;
  const auto busy = mesh.world().busy("writes the trace");
  write_events(std::move(all), path);
}

}  // namespace nanofsdp::cli
