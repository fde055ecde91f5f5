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

// Opens the file for the memory of these ranks. The first rank makes it and tells its descriptor,
// and the others open it there. Returns -1 with errno if that is not possible.
int open_common_file(ProcessState& run, const std::vector<int>& ranks) {
  const bool first = run.store.rank() == ranks[0];
  const auto bytes = ranks.size() * SharedMemory::part_bytes(static_cast<int>(ranks.size()));
  const int file = first ? open_shared_file(bytes) : -1, error = errno;
  const std::string mine = fmt::format("{} {}", getpid(), file);
  int process = 0, descriptor = -1;
  std::istringstream(run.gather("memory/file", mine, {ranks[0]})[0]) >> process >> descriptor;
  if (!first) return open_file_of(process, descriptor);
  errno = error;
  return file;
}

}  // namespace

ProcessState::ProcessState(launch::Store& the_store, std::chrono::milliseconds the_timeout)
    : RunState(the_timeout), store(the_store) {
  sharers = {store.rank()};
  store.on_loss([this](const std::string& what) { abort(what); });
}

std::string ProcessState::read(const std::string& key, const std::string& what, int patience) {
  const auto most = patience * store.patience();
  if (const auto value = store.get(key, most)) return *value;
  throw setup_error(fmt::format("{} did not come in {} ms", what, most.count()));
}

std::vector<std::string> ProcessState::gather(const std::string& key, const std::string& mine,
                                              const std::vector<int>& ranks, int patience) {
  store.set(fmt::format("{}.{}", key, store.rank()), mine);
  std::vector<std::string> all;
  for (const int rank : ranks)
    all.push_back(read(fmt::format("{}.{}", key, rank), fmt::format("rank {}", rank), patience));
  return all;
}

CommError ProcessState::setup_error(const std::string& complaint) {
  const std::string cause = store.roll_call();
  if (cause.empty()) return comm::setup_error(store.rank(), complaint);
  return comm::setup_error(store.rank(), cause, CommError::Kind::aborted);
}

std::string share_memory(ProcessState& run, std::vector<int> ranks, bool wanted) {
  const std::string space = wanted ? process_space() : "";
  const std::vector<std::string> spaces = run.gather("memory/space", space, ranks);
  if (space.empty()) return wanted ? "the system does not tell which ranks are here" : "as asked";
  std::erase_if(ranks, [&](int rank) { return spaces[rank] != space; });
  if (ranks.size() < 2) return "no other rank on this machine";
  const int mine = run.store.rank(), parts = static_cast<int>(ranks.size());
  const int file = open_common_file(run, ranks);
  std::string why = file < 0 ? std::strerror(errno) : "";
  try {
    const auto part = std::ranges::find(ranks, mine) - ranks.begin();
    if (file >= 0) run.memory = std::make_shared<SharedMemory>(file, parts, static_cast<int>(part));
  } catch (const Error& e) {
    why = e.what();
  }
  if (!why.empty()) why = fmt::format("rank {}: {}", mine, why);
  const std::vector<std::string> whys = run.gather("memory/why_not", why, ranks);
  if (file >= 0) close(file);  // all have mapped it
  for (const std::string& theirs : whys)
    if (!theirs.empty()) return run.memory.reset(), theirs;
  run.sharers = ranks;
  return parts == run.store.size() ? "" : "ranks on other machines";
}

}  // namespace nanofsdp::comm
