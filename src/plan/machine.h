#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

namespace nanofsdp::plan {

/// @file
/// @brief A machine on which a run is planned. A small text file says how fast its parts are.
///
///     # a comment
///     kind = gpu                      # or cpu
///     memory_bandwidth = 3.35e12      # bytes/s; every line says its source
///     attention:flash2 = 346e12       # FLOP/s of another attention kernel than this library's
///     ...                             # every other number of Machine by its name, in any order
///     [fitted] to the step times of ...
///     product_efficiency = 0.7        # and the other three
///
/// All numbers above `[fitted]` are published, or measured one by one. The four numbers below it
/// were fitted to the times of whole steps, which the heading names.

/// The numbers of a machine, in bytes, seconds and floating-point operations. The ranks on one
/// machine are a node. On GPUs each rank has a GPU and a network card of its own; on CPUs the ranks
/// of a node share its cores, memory and network.
struct Machine {
  enum class Kind { cpu, gpu };  ///< the device on which ranks compute
  Kind kind = Kind::gpu;         ///< device of this machine

  double memory = 0;  ///< bytes of a GPU that a program can have, or bytes of a CPU's node
  double memory_bandwidth = 0;  ///< bytes/s read and written; of a CPU's node, fetched
  double cores = 1;  ///< cores of a node; a GPU counts as one. FLOP/s are those of one core
  double products_bfloat16 = 0;   ///< FLOP/s of products of bfloat16 matrices
  double products_float32 = 0;    ///< FLOP/s of products of float32 matrices
  double product_half_width = 0;  ///< a product with a side of this length reaches half of that
  double attention = 0;           ///< FLOP/s of products inside this library's attention kernel
  std::map<std::string, double> attentions{};  ///< the same inside other kernels: "flash2"
  double attention_half_length = 0;            ///< rows of this many tokens reach half of that
  double flops = 0;                            ///< FLOP/s of all other work
  double kernel_time = 0;  ///< seconds that a kernel without work takes; on a CPU, an operator
  double launch_time = 0;  ///< seconds of the host to launch a kernel on another stream

  double node_ranks = 1;                ///< the most ranks of a node
  double node_bandwidth = 0;            ///< bytes/s each way between a node's ranks
  double node_latency = 0;              ///< seconds from one of them to the next
  double network_bandwidth = 0;         ///< bytes/s each way between nodes
  double network_latency = 0;           ///< seconds from one node to the next
  double network_oversubscription = 1;  ///< the network carries 1 / this if all nodes send

  double product_efficiency = 1;  ///< fitted: share of the peak of products
  double memory_efficiency = 1;   ///< fitted: share of memory_bandwidth
  double network_efficiency = 1;  ///< fitted: share of both bandwidths between ranks
  double overlap_slowdown = 1;    ///< fitted: factor of computing time while a collective runs
  std::string fitted_to{};        ///< the text of the heading

  /// The ranks that share memory, cores and network with a rank. A GPU has its own.
  double sharers(int ranks) const {
    return kind == Kind::cpu ? std::min<double>(ranks, node_ranks) : 1;
  }
};

/// @param path names the text in messages
/// @throws UsageError naming the line or the number that is wrong or missing
Machine parse_machine(std::string_view text, const std::string& path);

/// A built-in machine (data/machines/NAME.txt), or the file at this path.
/// @throws UsageError listing the built-in ones if there is neither, or as parse_machine()
Machine find_machine(const std::string& name_or_path);

}  // namespace nanofsdp::plan
