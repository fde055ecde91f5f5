#include "comm/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include <unistd.h>

#include "base/check.h"
#include "base/platform.h"

namespace nanofsdp::comm {
namespace {

std::string key(const char* what, int rank) { return fmt::format("memory/{}.{}", what, rank); }

std::string heard(Run& run, const char* what, int peer) {
  if (auto value = run.store.get(key(what, peer), run.connect_timeout)) return *value;
  const std::string lost = run.store.roll_call();
  throw CommError(CommError::Kind::setup,
                  fmt::format("rank {} could not join its group: {}", run.store.rank(),
                              lost.empty() ? fmt::format("rank {} did not come in {} ms", peer,
                                                         run.connect_timeout.count())
                                           : lost));
}

// Maps the file that the first of `ranks` has open. Returns why not, if that is not possible.
std::string map_file_of_first(Run& run, const std::vector<int>& ranks) {
  std::istringstream place(heard(run, "file", ranks[0]));
  pid_t process = 0;
  int descriptor = -1;
  place >> process >> descriptor >> errno;
  const int file = descriptor < 0 ? -1 : open_file_of(process, descriptor);
  if (file < 0) return fmt::format("rank {}: {}", run.store.rank(), std::strerror(errno));
  std::string why;
  try {
    const auto mine = std::ranges::find(ranks, run.store.rank()) - ranks.begin();
    run.memory = std::make_shared<SharedMemory>(file, static_cast<int>(ranks.size()),
                                                static_cast<int>(mine));
  } catch (const Error& e) {
    why = e.what();
  }
  close(file);
  return why;
}

}  // namespace

std::string share_memory(Run& run) {
  launch::Store& store = run.store;
  const std::string space = process_space();
  store.set(key("space", store.rank()), space);
  std::vector<int> here;
  for (int peer = 0; peer < store.size(); ++peer) {
    if (heard(run, "space", peer) == space && !space.empty()) here.push_back(peer);
  }
  if (here.size() < 2) return "no other rank on this machine";
  int file = -1;
  if (store.rank() == here[0]) {
    const int parts = static_cast<int>(here.size());
    file = open_shared_file(static_cast<std::size_t>(parts) * SharedMemory::part_bytes(parts));
    store.set(key("file", here[0]), fmt::format("{} {} {}", getpid(), file, errno));
  }
  store.set(key("why_not", store.rank()), map_file_of_first(run, here));
  std::string why;  // the first rank's that cannot
  for (const int peer : here) {
    const std::string theirs = heard(run, "why_not", peer);
    if (why.empty()) why = theirs;
  }
  if (file >= 0) close(file);  // all have opened it
  if (!why.empty()) return run.memory.reset(), why;
  run.sharers = here;
  forbid_tracing();
  return static_cast<int>(here.size()) == store.size() ? "" : "ranks on other machines";
}

}  // namespace nanofsdp::comm
