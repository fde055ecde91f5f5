#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "disk.h"
#include "frame/lesson.h"
#include "reads.h"
#include "run.h"

// Lesson 19: training that stops on 4 ranks and continues from the same step on any number of
// ranks.

namespace {

using namespace nanofsdp;
constexpr int kSteps = 6;

//! [checkpoint]
// A range of one parameter's elements, counted from the parameter's start, and their moments.
struct Piece {
  std::string name;
  fsdp::Range range;
  std::vector<float> values, m, v;
  std::int64_t steps = 0;  // updates that the optimizer has made to this parameter
};
using File = std::vector<Piece>;  // what one rank saves

struct Checkpoint {
  std::vector<File> files;
  GeneratorState generator;  // from which the next batch is drawn
};
//! [checkpoint]

File save(lesson::Training& run) {
  File file;
  //! [save]
  lesson::for_each_piece(run, [&](const lesson::View& my) {
    const auto copy = [](auto from) { return std::vector<float>(from.begin(), from.end()); };
    file.push_back({my.name, my.range, copy(my.values), copy(my.m), copy(my.v), my.steps});
  });
  //! [save]
  return file;
}

// The parts that load() leaves out, to show the consequences.
struct Forgets {
  bool moments = false, steps = false, generator = false;
};

void load(const Checkpoint& saved, lesson::Training& run, Forgets forgets = {}) {
  //! [load]
  lesson::for_each_piece(run, [&](const lesson::View& my) {
    for (const File& file : saved.files) {
      for (const Piece& piece : file) {
        const std::int64_t begin = std::max(my.range.begin, piece.range.begin);
        const std::int64_t end = std::min(my.range.end, piece.range.end);
        if (piece.name != my.name || begin >= end) continue;
        const auto copy = [&](const std::vector<float>& from, auto to) {
          std::copy_n(from.begin() + begin - piece.range.begin, end - begin,
                      to.begin() + begin - my.range.begin);
        };
        copy(piece.values, my.values);
        if (!forgets.moments) copy(piece.m, my.m), copy(piece.v, my.v);
        if (!forgets.steps) my.steps = piece.steps;
      }
    }
  });
  //! [load]
  for (fsdp::Unit& unit : run.state.sharded.units()) unit.rows()[0].written();
  if (!forgets.generator) run.generator.set_state(saved.generator);
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  const auto nothing = [](lesson::Training&) {};
  Checkpoint saved{.files = std::vector<File>(4)};
  std::vector<File> wanted(3);
  std::vector<int> equal(4);
  lesson::train(4, kSteps, nothing, [&](lesson::Training& t) {
    saved.files[t.rank] = save(t);
    equal[t.rank] = lesson::is_the_librarys(t, saved.files[t.rank]);
    if (t.rank == 0) saved.generator = t.generator.state();
  });
  lesson.claim(std::ranges::count(equal, 1) == 4, "saved by hand is saved by the library");
  lesson::train(3, 0, nothing, [&](lesson::Training& t) { wanted[t.rank] = save(t); });

  lesson.print("the root unit, in 4 files of 4 ranks     what 3 ranks want of it");
  for (int rank = 0; rank < 3; ++rank) {
    lesson.print(
        fmt::format("{:<41}{}", lesson::root_of(saved.files[rank]), lesson::root_of(wanted[rank])));
  }
  lesson.print(lesson::root_of(saved.files[3]));
  const lesson::Reads reads = lesson::reads_of_root(saved.files, wanted);
  lesson.print(fmt::format("rank 1 of 3 reads {} of the files; a file is {} bytes",
                           reads.files_of_1, lesson::bytes_of(saved.files[1])));
  lesson.picture(reads.picture);
  lesson.answer(reads.files_of_1), lesson.answer(lesson::bytes_of(saved.files[1]));

  const std::vector<double> whole = lesson::train(4, 2 * kSteps, nothing, nothing);
  lesson.print(
      fmt::format("goes on after step {}           loss of step {}   first loss that is off",
                  kSteps, 2 * kSteps));
  lesson.print(fmt::format("{:<31}{:>15.4f}", "never stopped", whole.back()));
  const auto go_on = [&](const char* name, int W, Forgets forgets) {
    const auto losses = lesson::train(
        W, kSteps, [&](lesson::Training& t) { load(saved, t, forgets); }, nothing);
    int step = 0;
    while (step < kSteps && std::abs(losses[step] / whole[kSteps + step] - 1) < 1e-6) ++step;
    lesson.print(fmt::format("{:<31}{:>15.4f}{:>25}", name, losses.back(),
                             step == kSteps ? "none" : fmt::to_string(kSteps + step + 1)));
    return losses;
  };
  const auto same = go_on("on 4 ranks", 4, {});
  lesson.claim(std::ranges::equal(same, std::span(whole).last(kSteps)), "4 ranks: the same bits");
  go_on("on 3 ranks", 3, {});
  go_on("on 4, moments forgotten", 4, {.moments = true});
  go_on("on 4, number of steps forgotten", 4, {.steps = true});
  go_on("on 4, generator forgotten", 4, {.generator = true});

  lesson.print(
      "the computer stops after an operation      operations   of which leave nothing usable");
  const auto stops = [&](const char* name, const lesson::Writer& writer) {
    const int lost = lesson::unusable_after(writer);
    lesson.print(fmt::format("{:<43}{:>10}{:>32}", name, writer.size(), lost));
    return lost;
  };
  lesson.answer(stops("overwritten in place", lesson::in_place()));
  stops("written aside, manifest first", lesson::aside(lesson::Manifest::first));
  const int lost = stops("written aside, manifest last", lesson::aside(lesson::Manifest::last));
  lesson.claim(lost == 0, "there is always a checkpoint");
  return lesson.end("4 ranks go on to the bit, 3 within 1e-6; and there is always a checkpoint");
}
