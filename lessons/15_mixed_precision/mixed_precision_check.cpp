#include <cmath>
#include <vector>

#include "base/device.h"
#include "base/rng.h"
#include "comm/sum.h"
#include "frame/exercise.h"
#include "mixed_precision_exercise.h"

using nanofsdp::bfloat16;

// One to six ranks. Their rows hold zero to five numbers of both signs, from tiny ones up to 2^25:
// a float does not hold every digit of their sum, so the order of the ranks and the precision
// matter.
int main() {
  lesson::Exercise exercise("average");
  nanofsdp::Generator generator(lesson::seed(15));
  const auto stream = nanofsdp::make_compute_stream(nanofsdp::Device::cpu, /*threads=*/1);
  for (int W = 1; W <= 6; ++W) {
    for (int n = 0; n < 300; ++n) {
      std::vector<std::vector<bfloat16>> ranks(W);
      std::vector<const void*> rows;
      std::string words;
      for (std::vector<bfloat16>& row : ranks) {
        for (int i = 0; i < n % 6; ++i) {
          const float size = static_cast<float>(1 << generator.randint(26));
          row.push_back(nanofsdp::to_bfloat16(size * (2 * generator.uniform() - 1)));
        }
        rows.push_back(row.data());
      }
      std::vector<float> yours(n % 6, NAN), spec(n % 6);
      average(ranks, yours);
      nanofsdp::comm::sum_in_rank_order(*stream, rows, nanofsdp::DType::bfloat16,
                                        nanofsdp::Tensor(spec.data(), {n % 6}),
                                        nanofsdp::comm::ReduceOp::average);
      for (int i = 0; i < n % 6; ++i) {
        words.clear();
        for (const auto& row : ranks) words += fmt::format(" {}", to_float32(row[i]));
        exercise.expect(yours[i], spec[i], "ranks with{}, number {}", words, i);
      }
    }
  }
  return exercise.end();
}
