#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/context.h"
#include "comm/local.h"
#include "comm/mesh.h"
#include "plan/simulated.h"
#include "support/configurations.h"

namespace nanofsdp::testing {

/// @file
/// @brief All that can be observed of a rank, except its numbers and its time.

/// The observations of a rank. They are equal for a real rank and a simulated one.
struct Observed {
  std::map<std::string, std::int64_t> bytes;    ///< bytes of each class, now and at their peaks
  std::map<std::string, std::int64_t> traffic;  ///< traffic of the second step
  std::vector<std::string> order;               ///< order of the second step

  friend bool operator==(const Observed&, const Observed&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Observed& o) {
    for (const auto& [name, value] : o.bytes) out << "\n  " << name << " " << value;
    for (const auto& [name, value] : o.traffic) out << "\n  " << name << " " << value;
    for (const std::string& event : o.order) out << " " << event;
    return out;
  }
};

/// Makes two steps of a training and observes the second one.
template <class Training>
Observed observe(Context& context, comm::Mesh& mesh, Training& training) {
  training.step();
  mesh.reset_traffic();
  context.tracer.start();
  training.step();
  context.tracer.stop();
  Observed seen{.order = context.tracer.take_order()};
  for (const MemoryClass c : kMemoryClasses) {
    const MemoryCount count = context.ledger.count(c);
    const std::string name(name_of(c));
    seen.bytes[name + " reserved"] = count.reserved;
    seen.bytes[name + " reserved, peak"] = count.reserved_peak;
    seen.bytes[name + " in use"] = count.in_use;
    seen.bytes[name + " in use, peak"] = count.in_use_peak;
  }
  seen.bytes["total"] = context.ledger.total();
  seen.bytes["total, peak"] = context.ledger.total_peak();
  seen.bytes["allocations"] = context.ledger.allocations();
  const comm::Traffic t = mesh.traffic();
  seen.traffic = {
      {"all-gathers", t.all_gathers}, {"reduce-scatters", t.reduce_scatters},
      {"all-reduces", t.all_reduces}, {"broadcasts", t.broadcasts},
      {"bytes sent", t.bytes_sent},   {"bytes received", t.bytes_received},
      {"control", t.control},         {"sent across", mesh.traffic_across().bytes_sent}};
  return seen;
}

/// The observations of ranks that are threads, in the order of ranks.
/// @param body (Context&, comm::Mesh&) -> Observed
template <class Body>
std::vector<Observed> on_threads(const Configuration& c, const Body& body) {
  std::vector<Observed> all(static_cast<std::size_t>(c.ranks));
  comm::launch_threads(c.ranks, c.threads,
                       [&](Context& context, std::unique_ptr<comm::Communicator> world) {
                         comm::Mesh mesh(std::move(world), c.shard_size, c.post_forward_size);
                         all[static_cast<std::size_t>(context.rank)] = body(context, mesh);
                       });
  return all;
}

/// The observations of a simulated rank.
/// @copydetails on_threads()
template <class Body>
Observed simulated(const Configuration& c, int rank, const Body& body,
                   Device device = Device::simulated_cpu, const plan::Scratch& scratch = {}) {
  plan::SimulatedRank context(rank, c.ranks, c.threads, device);
  comm::Mesh mesh = plan::make_simulated_mesh(context, c.shard_size, c.post_forward_size, scratch);
  return body(context, mesh);
}

}  // namespace nanofsdp::testing
