#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <sstream>

#include "base/check.h"
#include "base/platform.h"
#include "launch/rendezvous.h"

namespace nanofsdp::launch {
namespace {

using Getenv = std::function<const char*(const char*)>;

// The variables by which a launcher tells a process its rank.
struct Family {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* run;  // the launcher's name for the run, which other processes do not know by chance
  const char* if_set = nullptr;  // the launcher counts only if this is set
};
constexpr Family kFamilies[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_KVSNAME"},
    // A step is what srun starts, and it may be smaller than its job. A batch script has the
    // numbers of the job as well.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID",
     "SLURM_STEP_ID"}};

std::string text_of(const Getenv& getenv, const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// A number that may be missing if there is something else.
int number(const Getenv& getenv, const char* name, int least, int most,
           std::optional<int> otherwise = {}) {
  if (otherwise && getenv(name) == nullptr) return *otherwise;
  const std::string text = text_of(getenv, name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  NANOFSDP_REFUSE(.what = fmt::format("environment variable {}", name),
                  .expected = fmt::format("a number from {} to {}", least, most),
                  .got = getenv(name) == nullptr ? "nothing" : "'" + text + "'",
                  .hint = "a launcher sets it; without one: unset it, and use --ranks=N");
}

std::string required(const Getenv& getenv, const char* name, const std::string& otherwise,
                     const char* expected) {
  const std::string text = text_of(getenv, name);
  if (!text.empty() || !otherwise.empty()) return text.empty() ? otherwise : text;
  NANOFSDP_REFUSE(.what = fmt::format("environment variable {}", name), .expected = expected,
                  .got = "nothing", .hint = "export the same one on every machine");
}

// The number of Slurm's tasks on this node; 0: unknown. "2(x3),1" means two on each of the first
// three nodes, and one on the fourth. A number alone is that of every node. The job's number may be
// larger than the step.
int tasks_here(const Getenv& getenv, const char* name, int size) {
  int node = number(getenv, "SLURM_NODEID", 0, 1'000'000, 0), tasks = 0;
  std::istringstream list(text_of(getenv, name));
  for (std::string entry; node >= 0 && std::getline(list, entry, ',');) {
    int nodes = 1;
    std::sscanf(entry.c_str(), "%d(x%d)", &tasks, &nodes);
    node -= nodes;
  }
  return tasks > 0 && tasks <= size ? tasks : 0;
}

std::optional<Rendezvous> of_family(const Family& family, const Getenv& getenv) {
  Rendezvous r;
  r.size = number(getenv, family.size, 1, 1'000'000);
  r.rank = number(getenv, family.rank, 0, r.size - 1);
  if (r.size == 1) return std::nullopt;
  r.local_size = family.if_set ? tasks_here(getenv, family.local_size, r.size)
                               : number(getenv, family.local_size, 1, r.size, 0);
  const int most_here = r.local_size > 0 ? r.local_size : r.size;
  r.local_rank = number(getenv, family.local_rank, 0, most_here - 1, r.rank);
  r.host = required(getenv, "MASTER_ADDR", r.local_size == r.size ? "127.0.0.1" : "",
                    "the name or address of rank 0's machine");
  // The default port is PyTorch's. torchrun's agent has the port for itself, and says so.
  const bool taken = text_of(getenv, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  r.port = static_cast<std::uint16_t>(number(getenv, "MASTER_PORT", 1, 65534, 29500) + taken);
  const std::string run = text_of(getenv, family.run);
  r.token = required(getenv, "NANOFSDP_TOKEN", run == "none" ? "" : run,
                     "a word that only this run's ranks know");
  const std::string gloo = text_of(getenv, "GLOO_SOCKET_IFNAME");  // PyTorch's name of the variable
  r.interface = getenv("NANOFSDP_IFACE") == nullptr ? gloo : text_of(getenv, "NANOFSDP_IFACE");
  r.program = program_fingerprint();
  return r;
}

}  // namespace

std::optional<Rendezvous> rendezvous_from(const Getenv& getenv) {
  for (const Family& family : kFamilies) {
    if (getenv(family.rank) == nullptr && getenv(family.size) == nullptr) continue;
    if (family.if_set != nullptr && getenv(family.if_set) == nullptr) continue;
    // With Slurm's plugin pmi2, srun sets MPICH's rank and size. All other numbers of the step are
    // in Slurm's own variables.
    const bool pmi = family.size == std::string("PMI_SIZE") && getenv("SLURM_STEP_ID");
    if (pmi && text_of(getenv, family.size) == text_of(getenv, "SLURM_STEP_NUM_TASKS")) continue;
    return of_family(family, getenv);
  }
  return std::nullopt;
}

}  // namespace nanofsdp::launch
