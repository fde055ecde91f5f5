#include <fmt/format.h>

#include <set>
#include <string>

#include "checkpoint_exercise.h"
#include "frame/exercise.h"

// Shows a range as the function returns it.
static std::string shown(std::int64_t begin, std::int64_t end) {
  return begin >= end ? "an empty range" : fmt::format("{{{}, {}}}", begin, end);
}

// The specification assigns the elements one by one to the ranks that saved and to those that load.
static std::string by_dealing(std::int64_t n, std::int64_t V, std::int64_t W, std::int64_t r) {
  const auto owner = [n](std::int64_t element, std::int64_t ranks) {
    std::int64_t shard = 1;
    while (shard * ranks < n) ++shard;
    return element / shard;
  };
  std::set<std::int64_t> files;
  for (std::int64_t element = 0; element < n; ++element) {
    if (owner(element, W) == r) files.insert(owner(element, V));
  }
  return files.empty() ? shown(0, 0) : shown(*files.begin(), *files.rbegin() + 1);
}

int main() {
  lesson::Exercise exercise("files_to_read");
  for (std::int64_t n = 1; n <= 26; ++n) {
    for (std::int64_t V = 1; V <= 6; ++V) {
      for (std::int64_t W = 1; W <= 6; ++W) {
        for (std::int64_t r = 0; r < W; ++r) {
          const nanofsdp::fsdp::Range files = files_to_read(n, V, W, r);
          exercise.expect(shown(files.begin, files.end), by_dealing(n, V, W, r),
                          "n = {}, savers = {}, W = {}, r = {}", n, V, W, r);
        }
      }
    }
  }
  return exercise.end();
}
