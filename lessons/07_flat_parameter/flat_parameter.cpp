#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "frame/nanogpt.h"
#include "fsdp/layout.h"
#include "fsdp/sharded_parameters.h"
#include "fsdp/wrap.h"
#include "toy.h"

// Lesson 07: store parameters one after another in one row, and look at each through a view.

namespace {

using namespace nanofsdp;

//! [offsets]
// Where each parameter begins in the row; the last entry is where the row ends.
std::vector<std::int64_t> offsets(std::span<const std::int64_t> numels) {
  std::vector<std::int64_t> at = {0};
  for (const std::int64_t numel : numels) at.push_back(at.back() + numel);
  return at;
}
//! [offsets]

//! [row]
struct Row {
  std::vector<std::int64_t> at;  // offsets
  std::vector<float> flat;       // the only memory

  std::span<float> view(std::size_t i) {
    return {flat.data() + at[i], static_cast<std::size_t>(at[i + 1] - at[i])};
  }
};
//! [row]

// The toy row. The elements of each parameter have the values 0, 1, 2, ...
Row toy() {
  Row row{offsets(std::vector<std::int64_t>{2 * 3, 1 * 5, 7 * 2}), std::vector<float>(25)};
  for (int i = 0; i < 3; ++i) std::iota(row.view(i).begin(), row.view(i).end(), 0.0f);
  return row;
}

Tensor tensor(std::span<float> x) { return {x.data(), {static_cast<std::int64_t>(x.size())}}; }

// Rank 0 sends its values to rank 1: first one view at a time, then the whole row at once.
void send_toy(lesson::Lesson& lesson) {
  comm::launch_threads(2, 1, [&](Context& context, auto local) {
    comm::Communicator& group = *local;
    Row row = toy();
    const auto sent = [&](const std::vector<std::span<float>>& parts) {
      std::ranges::fill(row.flat, context.rank == 0 ? 1.0f : 0.0f);
      group.reset_traffic();
      //! [send]
      for (const std::span<float> part : parts) {
        group.broadcast(*context.compute, tensor(part), /*root=*/0);
      }
      //! [send]
      context.compute->synchronize();
      lesson.claim(std::ranges::count(row.flat, 1.0f) == 25, "all of the row has arrived");
      const comm::Traffic& traffic = group.traffic();
      return fmt::format("{}, {} bytes in all", traffic.broadcasts, traffic.bytes_sent);
    };
    const std::string apart = sent({row.view(0), row.view(1), row.view(2)});
    const std::string together = sent({row.flat});
    if (context.rank == 0) lesson.print("broadcasts: " + apart + "; or " + together);
  });
}

// nanoGPT's parameters in the library's rows: one row for each block, and one for the rest.
void flatten_gpt(lesson::Lesson& lesson) {
  Context context;
  gpt::GPT model(lesson::nanogpt(65));
  const auto units = fsdp::wrap(model, lesson::is_block);
  lesson.print(fmt::format("nanoGPT: {} parameters in {} rows; where each begins, and the end",
                           model.named_parameters().size(), units.size()));
  for (const fsdp::WrappedModule& unit : units) {
    const fsdp::ShardedParameters theirs(context, unit.parameters, 0, 1, /*kept=*/{}, 1);
    std::vector<std::int64_t> numels;
    for (const nn::Parameter* p : unit.parameters) numels.push_back(p->shape.numel());
    const std::vector<std::int64_t> at = offsets(numels);
    lesson.print(fmt::format("  {:<16}{}", unit.name, fmt::join(at, " ")));
    for (std::size_t i = 0; i < numels.size(); ++i) {
      const nn::Parameter& p = *unit.parameters[i];
      lesson.claim(p.data.f32() == theirs.parameter_storage().f32() + at[i], "data of " + p.name);
      lesson.claim(p.grad().f32() == theirs.gradient_storage().f32() + at[i], "grad of " + p.name);
    }
  }
  lesson.answer(static_cast<std::int64_t>(units.size()));
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  Row row = toy();
  lesson.print(fmt::format("A, B and C begin at {} {} {}, and the row ends at {}", row.at[0],
                           row.at[1], row.at[2], row.at[3]));

  //! [views]
  const std::span<float> B = row.view(1), C = row.view(2);
  const std::vector<float> copy(C.begin(), C.end());
  C[3 * 2 + 1] = 70;
  row.flat[6] = 60;
  //! [views]
  const std::int64_t place = &C[7] - row.flat.data();
  lesson.print(fmt::format("C[3][1] = 70 through the view: row[{}] is {}", place, row.flat[18]));
  lesson.print(fmt::format("row[6] = 60: the view of B begins with {}", B[0]));
  lesson.print(fmt::format("a copy of C made before has {} at C[3][1]: {}", copy[7],
                           copy[7] == C[7] ? "equal" : "differs"));

  lesson.answer(row.at[2]);
  lesson.answer(place);
  send_toy(lesson);
  flatten_gpt(lesson);

  const fsdp::Layout layout({lesson::kToy.begin(), lesson::kToy.end()}, 1);
  for (int i = 0; i < 3; ++i) lesson.claim(layout.in_whole(i).begin == row.at[i], "toy's offset");
  lesson.picture(lesson::picture_of_row(row.at, static_cast<int>(place)));
  return lesson.end("offsets equal Layout's, views those of ShardedParameters: same pointer");
}
