#pragma once

#include <cstddef>
#include <deque>

#include "plan/clock.h"

namespace nanofsdp::plan {

/// @file
/// @brief Machines for which times can be computed by hand, and logs to play on them.

/// One operation a second, and one byte a second of memory. Between the four ranks of a node: 100
/// bytes a second, after 1 s for each step. Between nodes: 10 bytes a second, after 3 s.
inline Machine gpu() {
  return {.kind = Machine::Kind::gpu,
          .memory_bandwidth = 1,
          .products_bfloat16 = 2,
          .products_float32 = 1,
          .attention = 1,
          .flops = 1,
          .node_ranks = 4,
          .node_bandwidth = 100,
          .node_latency = 1,
          .network_bandwidth = 10,
          .network_latency = 3};
}
inline Machine cpu() {
  Machine machine = gpu();
  machine.kind = Machine::Kind::cpu;
  machine.cores = 4;
  return machine;
}

inline constexpr Setup kSetup{.ranks = 16};  // on four nodes
inline constexpr Cost kTen{.flops = 10};
// Inside a node: 1 s, then 6 s.
inline constexpr Cost kSeven{.payload = {.bytes = 600, .ranks = 2}};

/// A log of three streams, the number that a Context has.
struct Log {
  std::size_t work(int stream, const Cost& cost) {
    all.push_back({.stream = stream, .cost = cost});
    return all.size();
  }
  void wait(int stream, int awaited, std::size_t point) {
    all.push_back(
        {.kind = Issued::Kind::wait, .stream = stream, .awaited = awaited, .point = point});
  }
  void block(int awaited, std::size_t point) {
    all.push_back({.kind = Issued::Kind::block, .awaited = awaited, .point = point});
  }
  void note(int stream, double& when) {
    all.push_back({.kind = Issued::Kind::note, .stream = stream, .when = &when});
  }
  Played on(const Machine& machine, const Setup& setup = {.ranks = 4}, std::size_t warm_up = 0) {
    return play(all, machine, setup, warm_up);
  }
  std::deque<Issued> all;
};

}  // namespace nanofsdp::plan
