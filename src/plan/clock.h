#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "plan/machine.h"
#include "plan/simulated.h"

namespace nanofsdp::plan {

/// @file
/// @brief The clock of a simulated device. It plays the log of the work that one rank issued, at
/// the speed of a machine.
///
/// The host goes through the log. On a GPU the host launches work and goes on. A stream begins a
/// piece of work when the host has launched it, the piece before it is done, and the event for
/// which the stream waits has passed. On a CPU the host does the work of stream 0 itself.
///
/// The time of a piece of work follows from its cost (work_seconds(), transfer()) and from the work
/// that runs at the same time. Collectives that use the same link get equal shares of it. Streams
/// that compute on the same GPU get equal shares of it. Computation is slower while a collective
/// runs. On a CPU a collective is the work of a thread, and all threads of a rank get equal shares
/// of its cores. The clock assumes that all other ranks do the same at the same time: no rank is
/// ever late.

/// The size of the run, which is the same on each rank.
struct Setup {
  int ranks = 1;    ///< W: number of ranks on all nodes
  int threads = 1;  ///< T: threads of a rank that computes on a CPU
  /// If it is not 0, sums across shard groups are on a stream of their own, as FSDP2 has them, and
  /// have this share of the bytes of the sums in float32.
  double across = 0;
};

/// Seconds that a piece of work takes if no other stream slows it: the time of its arithmetic or of
/// its memory traffic, whichever is longer (the roofline), and the kernels' own time.
///
///     products = products (1 + half_width / narrowest) / (rate * product_efficiency)
///     other = attention (1 + half_length / tokens) / rate + flops / rate
///     GPU: max(products + other, bytes / bandwidth) + kernel time
///     CPU: products + max(other, bytes / bandwidth) + kernel time
///
/// A CPU packs the operands of a product first, and this time comes in addition. The bytes that
/// count on a CPU are those that a cache fetches: bytes that are read, and bytes that are
/// overwritten. Bytes that are written back cost nothing. With C cores and W ranks of T threads,
/// the rates are those of min(T, C / W) cores, and a rank has a W-th of the bandwidth.
double work_seconds(const Machine& machine, const Setup& setup, const Cost& cost);

/// The time of a collective that has its link for itself.
struct Transfer {
  double latency = 0;        ///< seconds in which no bytes are sent
  double seconds = 0;        ///< seconds in which its bytes are sent
  bool leaves_node = false;  ///< whether its link is the network
};

/// The time in which each rank of a group sends `payload.bytes` bytes. The group has n ranks: k on
/// each of m nodes. If groups do not all lie alike on their nodes, the one that is split most
/// counts, because the others wait for it: k is then the greatest common divisor of n and a node's
/// ranks.
///
/// GPUs form rings (NCCL, src/graph/tuning.cc): a collective has n - 1 steps, and m - 1 of these go
/// to another node. Each of the k network cards of a node serves one of k rings, so it sends a k-th
/// of the bytes:
///
///     latency (n - m) * node_latency + (m - 1) * network_latency
///     seconds bytes / (network_efficiency * min(node_bandwidth, k * network_bandwidth))
///
/// Inside a node, or with one rank a node, only one of the two bandwidths counts. Ranks on CPUs
/// share memory and network of their node. There the thread of the stream does all of this, and
/// sends and receives a message for each other rank, which is the latency.
Transfer transfer(const Machine& machine, const Setup& setup, const Payload& payload);

/// The times of a part of a log.
struct Played {
  double seconds = 0;  ///< seconds until the host and all streams are done
  /// For each stream: seconds in which a piece of its work was running.
  std::vector<double> busy = std::vector<double>(kStreams);
  /// For each stream: seconds in which stream 0, which computes, did nothing because it waited for
  /// that stream, while a collective was running. For stream 0 itself: seconds in which it waited
  /// for anything else, such as the host or a cast. These and busy[0] add up to `seconds`.
  std::vector<double> exposed = std::vector<double>(kStreams);
  double sums = 0;           ///< seconds in which stream 0 itself ran a collective
  double communication = 0;  ///< seconds in which at least one collective was running
};

/// Plays a log from its beginning, time 0, and writes the times that were asked for
/// (Stream::note()).
/// @param warm_up number of entries that come first. They are played to their end, and the result
///   does not count them
Played play(const std::deque<Issued>& log, const Machine& machine, const Setup& setup,
            std::size_t warm_up = 0);

}  // namespace nanofsdp::plan
