#include "store/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/transfer.h"
#include "store/weights_files.h"

namespace nanofsdp::store {
namespace {

std::int64_t rows_of(const TensorInfo& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape[0];
}

// The rows of a tensor that a rank writes: torch.chunk's, along the first dimension.
fsdp::Range chunk_of(const TensorInfo& tensor, const comm::Mesh& mesh) {
  const std::int64_t rows = rows_of(tensor), most = (rows + mesh.size() - 1) / mesh.size();
  return {std::min(rows, mesh.rank() * most), std::min(rows, (mesh.rank() + 1) * most)};
}

// Readers take every such file for a part of the weights.
void require_no_weights(const std::filesystem::path& directory) {
  std::error_code none;
  for (const std::filesystem::path& file : std::filesystem::directory_iterator(directory, none)) {
    if (file.extension() != ".safetensors") continue;
    throw UsageError({.what = "weights to '" + directory.string() + "'",
                      .expected = "a directory without .safetensors files",
                      .got = "'" + file.filename().string() + "'",
                      .hint = "name another one, or remove these"});
  }
}

}  // namespace

std::filesystem::path weights_path(const std::string& out_dir) {
  return std::filesystem::path(out_dir) / "model.safetensors";
}

TensorInfo info_of(const nn::Parameter& parameter) {
  const auto dims = parameter.shape.dims();
  return {parameter.name, {dims.begin(), dims.end()}};
}

std::vector<TensorInfo> infos_of(fsdp::ShardedModel& model) {
  std::vector<TensorInfo> infos;
  for (const fsdp::ShardedParameters* row : model.rows()) {
    for (const nn::Parameter* parameter : row->parameters()) infos.push_back(info_of(*parameter));
  }
  return infos;
}

void save_weights(const std::string& out_dir, fsdp::ShardedModel& model, const Metadata& metadata,
                  int rank) {
  std::optional<SafetensorsWriter> writer;
  if (rank == 0) {
    writer.emplace(weights_path(out_dir).string(), infos_of(model), metadata);
  }
  std::vector<float> room;
  model.summon_full_parameters([&](const nn::Parameter& parameter) {
    const auto whole = on_host<float>(model.stream(), parameter.data, room);
    if (writer) writer->append(whole);
  });
  if (writer) writer->finish();
}

void save_sharded_weights(const std::string& directory, fsdp::ShardedModel& model,
                          Metadata metadata) {
  comm::Mesh& mesh = model.mesh();
  const auto barrier = [&] {
    mesh.world().barrier(model.stream(), {.unit = "weights", .control = true}).synchronize();
  };
  if (mesh.rank() == 0) {
    std::error_code none;  // without the directory, no file can be made, and that is told
    std::filesystem::create_directories(directory, none);
    require_no_weights(directory);
  }
  barrier();
  std::vector<TensorInfo> boxes;
  auto sharding = nlohmann::json::object();
  for (TensorInfo& tensor : infos_of(model)) {
    const fsdp::Range rows = chunk_of(tensor, mesh);
    if (rows.empty()) continue;
    std::vector<std::int64_t> offsets(tensor.shape.size());
    if (!offsets.empty()) offsets[0] = rows.begin, tensor.shape[0] = rows.size();
    sharding[tensor.name][kSavedOffsets] = offsets;
    boxes.push_back(std::move(tensor));
  }
  metadata[kShardingInfo] = sharding.dump();
  metadata[kShards] = fmt::to_string(mesh.size());
  const std::string name =
      fmt::format("shard-{:05}-model-00001-of-00001.safetensors", mesh.rank() + 1);
  SafetensorsWriter writer((std::filesystem::path(directory) / name).string(), std::move(boxes),
                           metadata);
  std::vector<float> room;
  model.summon_full_parameters([&](const nn::Parameter& parameter) {
    const auto whole = on_host<float>(model.stream(), parameter.data, room);
    const TensorInfo tensor = info_of(parameter);
    const fsdp::Range rows = chunk_of(tensor, mesh);
    if (rows.empty()) return;
    const std::size_t row = whole.size() / static_cast<std::size_t>(rows_of(tensor));
    writer.append(whole.subspan(static_cast<std::size_t>(rows.begin) * row,
                                static_cast<std::size_t>(rows.size()) * row));
  });
  writer.finish();
  barrier();  // nobody reads before all have written
}

void load_weights(const std::string& out_dir, fsdp::ShardedModel& model) {
  WeightsFiles files(out_dir);
  require_same_tensors(infos_of(model), files.tensors(), "weights '" + files.path() + "'");
  for (const fsdp::Unit& unit : model.units()) unit.require_at_rest("loading of weights");
  for (fsdp::ShardedParameters* row : model.rows()) {
    const auto parameters = row->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      row->store(i, files.read(info_of(*parameters[i])));
    }
  }
}

}  // namespace nanofsdp::store
