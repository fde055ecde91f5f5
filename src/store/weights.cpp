#include "store/weights.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/transfer.h"

namespace nanofsdp::store {

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

void load_weights(const std::string& out_dir, fsdp::ShardedModel& model) {
  const std::string path = weights_path(out_dir).string();
  SafetensorsFile file(path);
  require_same_tensors(infos_of(model), file.tensors(), "weights '" + path + "'");
  for (const fsdp::Unit& unit : model.units()) unit.require_at_rest("loading of weights");
  for (fsdp::ShardedParameters* row : model.rows()) {
    const auto parameters = row->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      row->store(i, file.read(info_of(*parameters[i])));
    }
  }
}

}  // namespace nanofsdp::store
