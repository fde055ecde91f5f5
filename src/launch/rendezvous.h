#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace nanofsdp::launch {

/// @file
/// @brief The address at which the ranks of a run find each other, and the number of this rank.

/// How long ranks wait for each other at the start and at the end, by default.
inline constexpr std::chrono::seconds kPatience{300};

/// A rank's place in a run, and the address at which rank 0 waits for it.
struct Rendezvous {
  std::string host = "127.0.0.1";  ///< the machine of rank 0, as the others know it
  std::uint16_t port = 0;          ///< the port at which rank 0 serves the store
  std::string token{};             ///< a process that does not have it is no rank of this run
  std::uint64_t program = 0;       ///< a fingerprint of the executable, the same on every rank
  int rank = 0;                    ///< the number of this rank among all
  int size = 1;                    ///< the number of ranks of the run
  int local_rank = -1;             ///< its number among the ranks on this machine; -1: `rank`
  int local_size = 0;              ///< the number of ranks on this machine; 0: unknown
  std::chrono::milliseconds patience{kPatience};  ///< how long to wait for rank 0
  int listener = -1;         ///< a descriptor that already listens there; the store takes it
  std::string interface {};  ///< the network interface to use; empty: the one that leads to rank 0
};

/// Reads what another launcher has said in the environment: torchrun, Open MPI, MPICH or Slurm. A
/// person may also set torchrun's variables by hand. Returns nothing if there is no launcher, or if
/// it has started one rank.
///
/// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; OMPI_COMM_WORLD_RANK, ...; PMI_RANK, ...;
/// SLURM_PROCID, ...; for all of them MASTER_ADDR, MASTER_PORT, NANOFSDP_TOKEN, NANOFSDP_IFACE
/// (lessons/several_machines.md). The default token is the launcher's name for the run. Without
/// NANOFSDP_IFACE the interface is that of GLOO_SOCKET_IFNAME, if there is one. An empty
/// NANOFSDP_IFACE asks for the interface that leads to rank 0, whatever GLOO_SOCKET_IFNAME says.
/// @param getenv returns the value of a variable, or nullptr
/// @throws UsageError if a variable is missing, contradicts another one, or is no number
std::optional<Rendezvous> rendezvous_from(const std::function<const char*(const char*)>& getenv);

}  // namespace nanofsdp::launch
