#pragma once

#include <deque>
#include <string>

#include "base/context.h"
#include "comm/mesh.h"

namespace nanofsdp::cli {

/// @file
/// @brief Writes the spans of all ranks to one file that chrome://tracing and ui.perfetto.dev open.
///
/// In the trace a rank is a process, and a lane is one of its threads: compute, all-gather, reduce,
/// wait. Time begins with the first span of any rank. On one host all ranks have the same clock. On
/// CUDA the times are those at which the host issued the work, and the name of each rank says so.

/// The first words of every trace.
inline constexpr char kTraceBegins[] = R"({"displayTimeUnit")";

/// Writes the trace on rank 0. Collective, control traffic.
/// @throws UsageError on rank 0 if the file cannot be written
void write_trace(Context& context, comm::Mesh& mesh, const std::string& path);

/// Writes the spans of one simulated rank.
/// @param start time of the spans' clock at which the trace begins, in seconds
/// @throws UsageError as above
void write_trace(const std::deque<Span>& spans, double start, int rank, const std::string& path);

}  // namespace nanofsdp::cli
