#include <gtest/gtest.h>

#include "22_your_own_model/float64.h"
#include "store/weights_files.h"
#include "support/temporary_directory.h"

// A Llama is published in bfloat16, under Hugging Face's names and without adapters. Adapters are
// trained beside it, while its own parameters stay in bfloat16.

namespace lesson {
namespace {

using nanofsdp::testing::TemporaryDirectory;

constexpr int kRanks = 2;

bool is_adapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

// Writes the file of the base, and returns what is in it, with the values of the adapters.
Values publish(const std::string& path, nn::Module& model, Values values) {
  std::vector<store::TensorInfo> tensors;
  for (const nn::Parameter* p : model.named_parameters()) {
    if (!is_adapter(p->name)) tensors.push_back(store::info_of(*p));
  }
  for (store::TensorInfo& tensor : tensors) tensor.dtype = "BF16";
  store::SafetensorsWriter writer(path, tensors, {{"format", "pt"}});
  for (const store::TensorInfo& tensor : tensors) {
    writer.append(values[tensor.name]);
    for (float& x : values[tensor.name]) x = to_float32(to_bfloat16(x));
  }
  writer.finish();
  return values;
}

// The losses of a rank that reads the base from the file.
std::vector<double> losses_of_rank(Context& context, std::unique_ptr<comm::Communicator> world,
                                   const Task& task, const std::string& directory, Values values) {
  const auto model = make_model(task);
  for (nn::Parameter* p : model->named_parameters()) {
    if (is_adapter(p->name)) continue;
    p->dtype = DType::bfloat16;
    std::ranges::fill(values[p->name], 0);  // until the file is read
  }
  give(*model, values);
  Training training(context, std::move(world), *model);
  store::WeightsFiles files(directory);
  for (fsdp::ShardedParameters* row : training.sharded.rows()) {
    for (std::size_t i = 0; i < row->parameters().size(); ++i) {
      const store::TensorInfo wanted = store::info_of(*row->parameters()[i]);
      if (!is_adapter(wanted.name)) row->store(i, files.read(wanted));
    }
  }
  std::vector<double> losses;
  const std::int64_t first = task.rows * context.rank / kRanks;
  for (int step = 0; step < task.steps; ++step) {
    Rows rows(task.rows / kRanks, task.T);
    task.text(step, first, rows);
    losses.push_back(training.step(std::move(rows), task.rows * task.T, task.lr));
  }
  return losses;
}

TEST(Llama, InBfloat16IsAdaptedAsOneOfTheSameValuesInFloat32) {
  const TemporaryDirectory directory;
  Task task = tiny_task(/*lora=*/true);
  task.lr = 1e-2;
  const auto model = make_model(task);
  const Values values = publish(directory.file("model.safetensors"), *model, tiny_values(*model));
  std::vector<std::vector<double>> of_ranks(kRanks);
  comm::launch_threads(kRanks, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    of_ranks[static_cast<std::size_t>(context.rank)] =
        losses_of_rank(context, std::move(world), task, directory.file(""), values);
  });
  const lesson::Run expected = train(kRanks, task, values);
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    const double sum = of_ranks[0][step] + of_ranks[1][step];
    EXPECT_EQ(sum / static_cast<double>(task.rows * task.T), expected.losses[step]) << step;
  }
  EXPECT_LT(expected.losses.back(), expected.losses.front());
}

}  // namespace
}  // namespace lesson
