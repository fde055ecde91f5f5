#include "replicate_exercise.h"

using nanofsdp::Stream;
using nanofsdp::comm::Communicator;

void share_gradient([[maybe_unused]] Stream& stream, [[maybe_unused]] Communicator& world,
                    [[maybe_unused]] std::span<float> gradient,
                    [[maybe_unused]] std::int64_t my_rows, [[maybe_unused]] std::int64_t all_rows) {
  // TODO(lesson 05): roughly 6 lines.
}
