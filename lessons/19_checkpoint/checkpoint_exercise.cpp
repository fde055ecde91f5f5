#include "checkpoint_exercise.h"

nanofsdp::fsdp::Range files_to_read(std::int64_t /*n*/, std::int64_t savers, std::int64_t /*W*/,
                                    std::int64_t /*r*/) {
  // TODO(lesson 19): roughly 5 lines. To read all files is right, but W times too much.
  return {0, savers};
}
