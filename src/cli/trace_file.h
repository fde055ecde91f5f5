#pragma once

#include <deque>
#include <string>

#include "base/context.h"
#include "base/tracer.h"
#include "comm/mesh.h"

namespace nanofsdp::cli {

/// @file
/// @brief The spans of all ranks as one file that chrome://tracing and ui.perfetto.dev open.
///
/// A rank is a process of the trace, a lane one of its threads: compute, all-gather, reduce, wait.
/// Time begins with the first span of any rank; the ranks' clocks are one, on one host. On CUDA it
/// is the host's time of issue, and the name of each rank says so.

/// Writes the trace on rank 0. Collective, control traffic.
/// @throws UsageError on rank 0 if the file cannot be written
void write_trace(Context& context, comm::Mesh& mesh, const std::string& path);

/// Writes the spans of one simulated rank.
/// @throws UsageError as above
void write_trace(const std::deque<Span>& spans, int rank, const std::string& path);

}  // namespace nanofsdp::cli
