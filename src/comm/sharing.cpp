#include "comm/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <sstream>

#include <unistd.h>

#include "base/check.h"
#include "base/platform.h"

namespace nanofsdp::comm {
namespace {

// Maps the file that another process, or this one, has open. Returns why not, if that is not
// possible.
std::string map_file(Run& run, const std::string& place, const std::vector<int>& ranks, int mine) {
  std::istringstream words(place);
  pid_t process = 0;
  int descriptor = -1;
  words >> process >> descriptor >> errno;
  const int file = descriptor < 0 ? -1 : open_file_of(process, descriptor);
  if (file < 0) return fmt::format("rank {}: {}", mine, std::strerror(errno));
  std::string why;
  try {
    const auto part = std::ranges::find(ranks, mine) - ranks.begin();
    run.memory = std::make_shared<SharedMemory>(file, static_cast<int>(ranks.size()),
                                                static_cast<int>(part));
  } catch (const Error& e) {
    why = e.what();
  }
  close(file);
  return why;
}

}  // namespace

ProcessRun::ProcessRun(launch::Store& the_store, std::chrono::milliseconds the_timeout,
                       std::chrono::milliseconds the_connect_timeout)
    : Run(the_timeout), store(the_store), connect_timeout(the_connect_timeout) {
  sharers = {store.rank()};
  store.on_loss([this](const std::string& what) { abort(what); });
}

std::vector<std::string> ProcessRun::gather(const std::string& key, const std::string& mine,
                                            const std::vector<int>& ranks,
                                            std::chrono::milliseconds patience) {
  store.set(fmt::format("{}.{}", key, store.rank()), mine);
  std::vector<std::string> all;
  for (const int rank : ranks) {
    auto value = store.get(fmt::format("{}.{}", key, rank), patience);
    if (!value) {
      throw setup_error(fmt::format("rank {} did not come in {} ms", rank, patience.count()));
    }
    all.push_back(std::move(*value));
  }
  return all;
}

CommError ProcessRun::setup_error(const std::string& complaint) {
  const std::string cause = roll_call();
  return CommError(CommError::Kind::setup,
                   fmt::format("rank {} could not join its group: {}", store.rank(),
                               cause.empty() ? complaint : cause));
}

std::string share_memory(ProcessRun& run) {
  const auto say = [&](const char* what, const std::string& mine, const std::vector<int>& ranks) {
    return run.gather(fmt::format("memory/{}", what), mine, ranks, run.connect_timeout);
  };
  std::vector<int> all(static_cast<std::size_t>(run.store.size())), here;
  std::iota(all.begin(), all.end(), 0);
  const std::string space = process_space();
  const std::vector<std::string> spaces = say("space", space, all);
  std::ranges::copy_if(all, std::back_inserter(here),
                       [&](int rank) { return spaces[rank] == space && !space.empty(); });
  if (here.size() < 2) return "no other rank on this machine";
  const int mine = run.store.rank(), parts = static_cast<int>(here.size());
  int file = -1;
  std::string place;  // where the file is open
  if (mine == here[0]) {
    file = open_shared_file(static_cast<std::size_t>(parts) * SharedMemory::part_bytes(parts));
    place = fmt::format("{} {} {}", getpid(), file, errno);
  }
  place = say("file", place, {here[0]})[0];
  std::string why;  // the first rank's that cannot
  for (const std::string& theirs : say("why_not", map_file(run, place, here, mine), here)) {
    if (why.empty()) why = theirs;
  }
  if (file >= 0) close(file);  // all have opened it
  if (!why.empty()) return run.memory.reset(), why;
  run.sharers = here;
  forbid_tracing();
  return parts == run.store.size() ? "" : "ranks on other machines";
}

}  // namespace nanofsdp::comm
