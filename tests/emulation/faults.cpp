#include "faults.h"

#include <limits>

namespace emulation {
namespace {

constinit thread_local long calls = 0, first = 0, last = 0;

}  // namespace

std::atomic<long> alive = 0;
std::atomic<bool> has_failed = false;

void fail_nth(long n, bool later) {
  calls = 0;
  first = n;
  last = later ? std::numeric_limits<long>::max() : n;
}
long counted() { return calls; }
bool fails() {
  const bool now = ++calls >= first && calls <= last && first > 0;
  if (now) has_failed = true;
  return now;
}

}  // namespace emulation
