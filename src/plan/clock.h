#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "base/cost.h"
#include "plan/machine.h"
#include "plan/simulated.h"

namespace nanofsdp::plan {

/// @file
/// @brief The clock of a simulated device: what one rank issued, played at the speed of a machine.
///
/// The host walks the log. On a GPU it launches work and goes on; a stream begins a piece when the
/// host has launched it, the piece before it is done, and what the stream waits for has passed. On
/// a CPU the host does the work of stream 0 itself.
///
/// How long work takes follows from its cost (work_seconds(), transfer()), and from what runs
/// beside it: collectives that use one link at a time get equal shares of it, so do streams that
/// compute on one GPU, and computation slows while a collective runs. On a CPU a collective is the
/// work of a thread, and all threads of a rank get equal shares of its cores. All other ranks are
/// taken to do the same at the same time: none is ever late.

/// The ranks of the run; the same on each.
struct Setup {
  int ranks = 1;    ///< W, of all nodes
  int threads = 1;  ///< T, of a rank that computes on a CPU
};

/// Seconds of work that no other stream slows: as long as its arithmetic or its memory traffic
/// takes, whichever is longer (the roofline), and the kernels' own time.
///
///     products = products (1 + half_width / narrowest) / (rate * product_efficiency)
///     other = attention (1 + half_length / tokens) / rate + flops / rate
///     GPU: max(products + other, bytes / bandwidth) + kernel time
///     CPU: products + max(other, bytes / bandwidth) + kernel time
///
/// A CPU packs the operands of a product first, and no arithmetic hides that. Its bytes are those
/// that a cache fetches: what is read, and what is overwritten; what is written back costs nothing.
/// With C cores and W ranks of T threads the rates are those of min(T, C / W) cores, the bandwidth
/// is a W-th.
double work_seconds(const Machine& machine, const Setup& setup, const Cost& cost);

/// What a collective takes if it has its link for itself.
struct Transfer {
  double latency = 0;        ///< seconds, in which nothing is moved
  double seconds = 0;        ///< to move its bytes
  bool leaves_node = false;  ///< whether its link is the network
};

/// A group of n ranks, of which k are on each of m nodes, moves `bytes` past each of its ranks.
///
/// GPUs form rings (NCCL, src/graph/tuning.cc): n - 1 steps, of which m - 1 go to another node.
/// Each of the k network cards of a node carries one of k rings, so a k-th of the bytes:
///
///     latency (n - m) * node_latency + (m - 1) * network_latency
///     seconds bytes / (network_efficiency * min(node_bandwidth, k * network_bandwidth))
///
/// Inside a node, or with one rank a node, only one of the two bandwidths counts. Ranks on CPUs
/// share memory and network of their node. There all of it is work of the stream's thread, the
/// latency too: messages to and from each other rank.
Transfer transfer(const Machine& machine, const Setup& setup, const Message& message);

/// A part of a log, played.
struct Played {
  double seconds = 0;  ///< until the host and all streams are done
  /// By stream: seconds in which a piece of its work was under way.
  std::vector<double> busy = std::vector<double>(kStreams);
  /// By stream: seconds in which stream 0, which computes, stood and waited for it; of stream 0
  /// itself: for the host. With busy[0] they make up all seconds.
  std::vector<double> exposed = std::vector<double>(kStreams);
};

/// Plays a log from its beginning, time 0, and writes the times that were asked for
/// (Stream::note()).
/// @param warm_up so many entries come first, to their end, and do not count in what is returned;
///        times go on from there
Played play(const std::deque<Issued>& log, const Machine& machine, const Setup& setup,
            std::size_t warm_up = 0);

}  // namespace nanofsdp::plan
