#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "support/process.h"
#include "support/temporary_directory.h"

namespace nanofsdp::cli::mfu_test {
namespace {

using namespace std::chrono_literals;
using testing::Process;
using testing::read_file;
using testing::TemporaryDirectory;

// Each parameter of a product counts six operations for each token. Attention counts over half of
// all pairs.
TEST(Mfu, IsTheModelsArithmeticOverWhatThreadsCanDo) {
  const TemporaryDirectory d;
  Process process(d.file(""),
                  {"train", "--n_layer=2", "--n_head=1", "--n_embd=8", "--bias=True",
                   "--block_size=8", "--batch_size=4", "--eval_iters=1",
                   "--gradient_accumulation_steps=3", "--ranks=2", "--max_iters=8", "--metrics=m"});
  EXPECT_EQ(process.wait(60s), 0) << process.err();
  const std::string out = process.out();
  std::smatch all, mfu, each;
  ASSERT_TRUE(std::regex_search(out, all, std::regex(R"(model +([\d,]+) parameters)")));
  ASSERT_TRUE(std::regex_search(
      out, mfu, std::regex(R"(\nmfu +([\d.]+) %: .* is ([\d.]+) GFLOP/s, of ([\d.]+) that)")));
  const double V = (std::stod(std::regex_replace(all[1].str(), std::regex(","), "")) - 8 * 8 -
                    2 * (12 * 8 * 8 + 13 * 8) - 2 * 8) /
                   8;
  const double products = V * 8 + 2 * 12 * 8 * 8;
  // For each pair and feature, forward has two products and backward five, with two operations
  // each.
  const double attention = 2 * 7 * 2 * (8 + 1) / 2.0 * 8;  // for each token
  // Operations of a rank in a step.
  const double flops = (6 * products + attention) * 4 * 8 * 3 / 2;
  const double peak = 1e9 * std::stod(mfu[3]);
  double seconds = 0;
  int steps = 0;
  std::istringstream text(read_file(d.file("m")));
  for (std::string line; std::getline(text, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("loss")) continue;
    const double ms = json["ms"];
    seconds += ms / 1e3;
    ++steps;
    EXPECT_NEAR(json["mfu"].get<double>() * ms / 1e3 * peak / flops, 1, 0.1 / std::stod(mfu[3]));
  }
  EXPECT_EQ(steps, 8);
  EXPECT_NEAR(std::stod(mfu[2]), 1e-9 * flops * 8 / seconds, 0.051);
  EXPECT_GT(peak, 1e8);  // any processor reaches this, even under a sanitizer
  EXPECT_NE(out.find("tokens/s, mfu "), std::string::npos);
}

}  // namespace
}  // namespace nanofsdp::cli::mfu_test
