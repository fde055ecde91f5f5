#include "why_shard_exercise.h"

std::int64_t fewest_ranks(std::int64_t n, std::int64_t kept, std::int64_t borrowed,
                          std::int64_t memory) {
  const std::int64_t room = (memory - borrowed) / kept;  // parameters that fit on one rank
  if (memory < borrowed || room == 0) return 0;          // not even a shard of one parameter
  return (n + room - 1) / room;                          // n / room, rounded up
}
