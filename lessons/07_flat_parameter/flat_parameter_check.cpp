#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "flat_parameter_exercise.h"
#include "frame/exercise.h"

using nanofsdp::fsdp::Layout;
using nanofsdp::fsdp::ParameterSpec;

static bool operator==(const Place& a, const Place& b) {
  return a.parameter == b.parameter && (a.parameter < 0 || (a.i == b.i && a.j == b.j));
}
static std::string to_string(const Place& p) {
  return p.parameter < 0 ? "in no parameter"
                         : fmt::format("element [{}][{}] of parameter {}", p.i, p.j, p.parameter);
}

// Tries the toy, parameters with one element or none, the start of a GPT's block, and no
// parameters, each aligned to 1, 2, 4 and 16 elements. Compares each view's place in the row and
// its length.
static int check_views() {
  lesson::Exercise exercise("views");
  const std::vector<std::vector<ParameterSpec>> units = {
      {{"A", {2, 3}}, {"B", {1, 5}}, {"C", {7, 2}}},
      {{"scalar", {}}, {"none", {0, 4}}, {"one", {1}}, {"last", {3, 3}}},
      {{"ln_1", {128}}, {"c_attn", {384, 128}}, {"c_proj", {128, 128}}, {"ln_2", {128}}},
      {}};
  std::vector<float> memory(70000);
  for (const auto& unit : units) {
    for (const std::int64_t alignment : {1, 2, 4, 16}) {
      const Layout layout(unit, 1, alignment);
      const std::vector<std::span<float>> yours = views(memory, unit, alignment);
      if (!exercise.expect(yours.size(), unit.size(), "the number of views")) break;
      for (std::size_t i = 0; i < unit.size(); ++i) {
        exercise.expect(yours[i].data() - memory.data(), layout.in_whole(i).begin,
                        "begin of {} aligned to {}", unit[i].name, alignment);
        exercise.expect(static_cast<std::int64_t>(yours[i].size()), unit[i].numel(),
                        "length of {} aligned to {}", unit[i].name, alignment);
      }
    }
  }
  return exercise.end();
}

// Random matrices, some without elements. Every element of the row is asked for, and a few behind
// it. The specification writes each place where its element lies.
static int check_places() {
  lesson::Exercise exercise("place_of");
  std::mt19937 random(lesson::seed(7));
  for (int round = 0; round < 40; ++round) {
    std::vector<ParameterSpec> unit;
    std::string shapes;
    for (int p = 0; p < round % 5; ++p) {
      const std::int64_t rows = random() % 4, columns = 1 + random() % 5;
      unit.push_back({"", {rows, columns}});
      shapes += fmt::format("({}, {}) ", rows, columns);
    }
    const std::int64_t alignment = std::int64_t{1} << random() % 4;
    const Layout layout(unit, 1, alignment);
    std::vector<Place> places(static_cast<std::size_t>(layout.padded_numel() + 3));
    for (std::size_t p = 0; p < unit.size(); ++p) {
      const std::int64_t begin = layout.in_whole(p).begin, columns = unit[p].shape[1];
      for (std::int64_t i = 0; i < unit[p].shape[0]; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          places[static_cast<std::size_t>(begin + i * columns + j)] = {static_cast<int>(p), i, j};
        }
      }
    }
    for (std::size_t e = 0; e < places.size(); ++e) {
      exercise.expect(place_of(static_cast<std::int64_t>(e), unit, alignment), places[e],
                      "element {} of matrices {}aligned to {}", e, shapes, alignment);
    }
  }
  return exercise.end();
}

int main() { return check_views() + check_places() == 0 ? 0 : 1; }
