#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace nanofsdp::launch {

/// @file
/// @brief Where the ranks of a run find each other, and the number of this rank.

/// How long ranks wait for each other at the start, unless a caller says it.
inline constexpr std::chrono::seconds kPatience{300};

/// One rank's place in a run, and where rank 0 waits for it.
struct Rendezvous {
  std::string host = "127.0.0.1";  ///< rank 0's machine, as the others know it
  std::uint16_t port = 0;          ///< where rank 0 serves the store
  std::string token{};             ///< a process without it is not a rank of this run
  std::uint64_t program = 0;       ///< a fingerprint of the executable, the same on every rank
  int rank = 0;                    ///< of this process, among all
  int size = 1;                    ///< ranks of the run
  int local_rank = -1;             ///< among the ranks on this machine; -1: as `rank`
  int local_size = 0;              ///< ranks on this machine; 0: unknown
  std::chrono::seconds patience{kPatience};  ///< machines do not all start at once
  int listener = -1;         ///< a descriptor that listens there already, for the store to own
  std::string interface {};  ///< the network interface to use; empty: the one that leads to rank 0
};

/// What a launcher of others has said in the environment: torchrun (or a person who sets its
/// variables by hand), Open MPI, MPICH or Slurm; none without these, or for a run of one rank.
///
/// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE; OMPI_COMM_WORLD_RANK, ...; PMI_RANK, ...;
/// SLURM_PROCID, ...; for all of them MASTER_ADDR, MASTER_PORT, NANOFSDP_TOKEN, NANOFSDP_IFACE
/// (lessons/several_machines.md). The token defaults to the launcher's name for the run. Without
/// NANOFSDP_IFACE the interface is that of GLOO_SOCKET_IFNAME, if there is one. An empty
/// NANOFSDP_IFACE asks for the one that leads to rank 0, whatever that says.
/// @param getenv the environment: the variable's value or nullptr
/// @throws UsageError for what is missing, contradictory or no number
std::optional<Rendezvous> rendezvous_from(const std::function<const char*(const char*)>& getenv);

}  // namespace nanofsdp::launch
