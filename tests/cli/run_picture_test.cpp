#include "cli/run_picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <sstream>

#include "support/process.h"
#include "support/temporary_directory.h"

namespace nanofsdp::cli::run_picture_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The points of one polyline, by its colour, in the order of the panels.
using Places = std::vector<std::pair<double, double>>;
std::vector<Places> lines_of(const std::string& svg, const std::string& colour) {
  const std::regex line("<polyline points=\"([^\"]*)\" stroke=\"" + colour + "\"");
  std::vector<Places> lines;
  for (std::sregex_iterator at(svg.begin(), svg.end(), line), end; at != end; ++at) {
    std::istringstream corners((*at)[1]);
    lines.emplace_back();
    char comma = 0;
    for (double x = 0, y = 0; corners >> x >> comma >> y;) lines.back().emplace_back(x, y);
  }
  return lines;
}
const std::string kOurs = "#56b4e9", kValidation = "#009e73", kReference = "#333333";

std::string drawn(const Curves& run, const Curves& reference = {}) {
  Ledger ledger;
  ledger.reserve(MemoryClass::optimizer, 1234567);
  return draw_run("title", run, reference, ledger);
}

// All tags are closed, and all numbers are numbers.
void expect_sound(const std::string& svg) {
  const auto count = [&](const std::string& part) {
    int n = 0;
    for (std::size_t at = svg.find(part); at != svg.npos; at = svg.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg.substr(0, 80);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(count("<text"), count("</text>"));
  EXPECT_EQ(count("<"), count(">"));
  EXPECT_EQ(count("nan"), 0);
  EXPECT_EQ(count("inf"), 0);
}

TEST(Curve, KeepsEveryPeakInAtMost500Points) {
  for (const int n : {1, 2, 499, 500, 501, 999, 1001, 12345, 100'000}) {
    const auto value_of = [n](std::int64_t i) {
      const double peak = i == n / 3 ? 9 : i == n / 2 ? -9 : 0;
      return static_cast<float>(std::sin(static_cast<double>(i)) + peak);
    };
    Curve curve;
    for (int i = 0; i < n; ++i) curve.add(3 * i, value_of(i));
    EXPECT_EQ(curve.last(), 3 * (n - 1));
    const std::vector<Curve::Point> points = curve.points(curve.last());
    EXPECT_LE(points.size(), 500u);
    EXPECT_GE(points.size(), std::min<std::size_t>(250, static_cast<std::size_t>(n)));
    // Each point spans exactly the values from its iteration to the next point's.
    for (std::size_t p = 0; p < points.size(); ++p) {
      const double end = p + 1 < points.size() ? points[p + 1].x : 3.0 * n;
      double least = kInfinity, most = -kInfinity;
      for (auto i = static_cast<std::int64_t>(points[p].x) / 3; 3.0 * i < end; ++i) {
        least = std::min<double>(least, value_of(i));
        most = std::max<double>(most, value_of(i));
      }
      ASSERT_EQ(points[p].low, least) << n << " " << p;
      ASSERT_EQ(points[p].high, most) << n << " " << p;
    }
    EXPECT_EQ(points[0].x, 0);
    EXPECT_EQ(curve.points(0).size(), 1u);               // later values lie beyond the right end
    for (const int end : {n / 100, n / 10, n / 2, n}) {  // the ends of shorter runs
      const std::size_t some = curve.points(3 * end).size();
      EXPECT_LE(some, 500u) << n << " " << end;
      EXPECT_GE(some, std::min<std::size_t>(250, static_cast<std::size_t>(end))) << n << " " << end;
    }
  }
}

// A run that diverges may have any float32.
TEST(RunPicture, NamesTicksOfEverySize) {
  for (const float size : {1e-9F, 1e-3F, 1.0F, 1e4F, 1e15F, 3e18F, 1e25F, 1e38F}) {
    Curves run;
    for (int i = 0; i < 9; ++i) run.loss.add(i, (static_cast<float>(i) - 0.5F) * size);
    const std::string svg = drawn(run);
    expect_sound(svg);
    EXPECT_EQ(svg.find(">-0<"), svg.npos) << size;
    EXPECT_EQ(svg.find("9,223,372,036"), svg.npos) << size;
  }
}

TEST(Curve, LeavesOutWhatHasNoPlace) {
  Curve curve;
  curve.add(0, 1);
  curve.add(1, std::nan(""));
  curve.add(2, kInfinity);
  EXPECT_EQ(curve.last(), 0);
  curve.add(3, 2);
  curve.add(4, 1e300);  // more than the largest float
  ASSERT_EQ(curve.points(9).size(), 2u);
  EXPECT_EQ(curve.points(9)[1].high, 2);
}

// The later of two lines of an iteration counts in a picture, and in a metrics file too.
TEST(Curve, OfARunThatWasResumedForgetsWhatCameAfter) {
  Curve curve;
  for (int i = 0; i < 20; ++i) curve.add(i, 1);
  for (int i = 15; i < 18; ++i) curve.add(i, 2);
  curve.add(17, 3);
  EXPECT_EQ(curve.last(), 17);
  const auto points = curve.points(99);
  ASSERT_EQ(points.size(), 18u);
  EXPECT_EQ(points[14].high, 1);
  EXPECT_EQ(points[15].high, 2);
  EXPECT_EQ(points[17].high, 3);
}

TEST(Curves, ReadMetricsOfOursAndOfOthers) {
  const TemporaryDirectory directory;
  const std::string path = directory.write(
      "m.jsonl",
      "{\"iter\":0,\"train_loss\":4.5,\"val_loss\":4.25}\n"
      "{\"iter\":0,\"loss\":4.0,\"grad_norm\":2.0,\"tokens_per_s\":100}\r\n"
      "{\"iter\": 1, \"loss\": 3.0}\n{\"iter\": 2, \"loss\": null}\n\n{\"iter\": -1, \"loss\": 9}\n"
      "[1]\n{\"iter\": \"3\", \"loss\": 9}\n{\"iter\": 1e300, \"loss\": 9}\n"
      "{\"iter\": 5, \"loss\": 2.0}\n{\"iter\": 6, \"lo");  // the run was killed here
  Curves all, some;
  all.read(path, {});
  some.read(path, {}, 5);
  EXPECT_EQ(all.loss.last(), 5);
  EXPECT_EQ(all.loss.points(9).size(), 3u);
  EXPECT_EQ(some.loss.last(), 1);
  EXPECT_EQ(all.val_loss.points(9).at(0).low, 4.25);
  EXPECT_EQ(all.grad_norm.points(9).at(0).low, 2);
  EXPECT_EQ(all.tokens_per_s.points(9).at(0).low, 100);
  EXPECT_EQ(read_reference(path).loss.last(), 5);
}

TEST(RunPicture, PutsEveryValueInItsPlace) {
  Curves run, reference;
  for (int i = 0; i <= 10; ++i) {
    run.loss.add(i, 4 - 0.2 * i);  // from 4 to 2
    run.grad_norm.add(i, 1);
    run.tokens_per_s.add(i, 1000);
    reference.loss.add(2 * i, 4 - 0.4 * i);  // the same line, for twice as many iterations
  }
  run.val_loss.add(0, 4);
  run.val_loss.add(10, 2);
  const std::string svg = drawn(run, reference);
  expect_sound(svg);
  const std::vector<Places> ours = lines_of(svg, kOurs);
  ASSERT_EQ(ours.size(), 3u);
  // x goes from 80 to 680. The panel goes from 56 to 206, with a twentieth above and below: a tenth
  // of 2.2.
  const Places& loss = ours[0];
  for (std::size_t i = 0; i <= 10; ++i) {
    EXPECT_NEAR(loss.at(2 * i).first, 80 + 60.0 * static_cast<double>(i), 0.051);
    EXPECT_NEAR(loss.at(2 * i).second, 56 + 150 * (0.1 + 0.2 * static_cast<double>(i)) / 2.2,
                0.051);
    EXPECT_EQ(loss.at(2 * i), loss.at(2 * i + 1));
  }
  // Norm and speed are drawn from zero.
  EXPECT_NEAR(ours[1][0].second, 262 + 150 * 0.05 / 1.05, 0.051);
  EXPECT_NEAR(ours[2][0].second, 468 + 150 * 0.05 / 1.05, 0.051);
  // The reference lies on our line and ends where our line ends.
  const std::vector<Places> others = lines_of(svg, kReference);
  ASSERT_EQ(others.size(), 1u);
  ASSERT_EQ(others[0].size(), 12u);
  for (std::size_t i = 0; i <= 5; ++i) EXPECT_EQ(others[0][2 * i], loss[4 * i]);
  const std::vector<Places> validation = lines_of(svg, kValidation);
  ASSERT_EQ(validation.size(), 1u);
  EXPECT_EQ(validation[0].front(), loss.front());
  EXPECT_EQ(validation[0].back(), loss.back());
  for (const char* words :
       {">title<", ">1,234,567 bytes<", ">reference<", ">2.5<", ">10<", ">iteration<",
        ">memory of a rank: 1.23 MB at its peak; each class at its own<"}) {
    EXPECT_NE(svg.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(svg.find("activations"), std::string::npos);  // there are no activations
  // The bar of a class has the colour that the lessons give to what it holds.
  EXPECT_NE(svg.find("height=\"14\" fill=\"#009e73\""), std::string::npos) << "the optimizer's";
}

// The run has just begun, has diverged, or has values that are all equal, tiny, or huge.
TEST(RunPicture, IsSoundWhateverTheValues) {
  expect_sound(draw_run("", {}, {}, Ledger()));
  for (const double value : {0.0, -1.0, 1e-30, 1e30, 3.25, kInfinity, std::nan("")}) {
    for (const int steps : {1, 2, 3000}) {
      Curves run;
      for (int i = 0; i < steps; ++i) {
        run.loss.add(i, value);
        run.grad_norm.add(i, value);
        run.tokens_per_s.add(i, 5e8);
      }
      const std::string svg = drawn(run);
      expect_sound(svg);
      EXPECT_LT(svg.size(), 100'000u);
      for (const Places& line : lines_of(svg, kOurs)) {
        for (const auto& [x, y] : line) {
          ASSERT_TRUE(x >= 80 && x <= 680 && y >= 56 && y <= 618) << value;
        }
      }
    }
  }
}

// ---- as users run it

std::string run(const TemporaryDirectory& directory, std::vector<std::string> words) {
  words.insert(words.begin(), {"train", "--n_layer=1", "--n_head=1", "--n_embd=8", "--block_size=8",
                               "--eval_iters=1", "--log_interval=1", "--eval_interval=4",
                               "--batch_size=4", "--out_dir=o"});
  Process process(directory.file(""), words);
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  return process.out();
}

std::size_t steps_drawn(const TemporaryDirectory& directory) {
  const std::string svg = read_file(directory.file("o/run.svg"));
  expect_sound(svg);
  return lines_of(svg, kOurs).at(0).size() / 2;
}

TEST(RunPicture, GrowsWithTheRunAndWithItsResumption) {
  const TemporaryDirectory d;
  run(d, {"--max_iters=8", "--metrics=m", "--ranks=2"});
  EXPECT_EQ(steps_drawn(d), 8u);
  const std::string svg = read_file(d.file("o/run.svg"));
  EXPECT_NE(svg.find("full_shard over 2 ranks"), std::string::npos);
  EXPECT_EQ(lines_of(svg, kReference).size(), 0u);
  run(d, {"--max_iters=8", "--init_from=resume"});  // without a step the old picture stays
  EXPECT_EQ(read_file(d.file("o/run.svg")), svg);
  std::filesystem::copy(d.file("m"), d.file("r"));
  run(d, {"--max_iters=12", "--metrics=m", "--init_from=resume", "--reference=r"});
  EXPECT_EQ(steps_drawn(d), 12u);
  // The run is its own reference, up to the iteration that it had reached.
  const std::string resumed = read_file(d.file("o/run.svg"));
  const Places ours = lines_of(resumed, kOurs).at(0), other = lines_of(resumed, kReference).at(0);
  EXPECT_EQ(other, Places(ours.begin(), ours.begin() + 16));
  run(d, {"--max_iters=15", "--init_from=resume"});  // without metrics: only the values of this run
  EXPECT_EQ(steps_drawn(d), 3u);
  run(d, {"--max_iters=16", "--init_from=resume", "--metrics=/dev/null"});
  EXPECT_EQ(steps_drawn(d), 1u);
}

}  // namespace
}  // namespace nanofsdp::cli::run_picture_test
