#include "faults.h"

namespace emulation {
namespace {

constinit thread_local long calls = 0, failing = 0;

}  // namespace

std::atomic<long> alive = 0;
std::atomic<bool> has_failed = false;

void fail_nth(long n) { calls = 0, failing = n; }
long counted() { return calls; }
bool fails() {
  const bool now = ++calls == failing;
  if (now) has_failed = true;
  return now;
}

}  // namespace emulation
