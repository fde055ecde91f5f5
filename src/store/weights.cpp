#include "store/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/transfer.h"
#include "comm/agreement.h"
#include "store/weights_files.h"
#include "store/whole.h"

namespace nanofsdp::store {
namespace {

using fsdp::Range;

constexpr char kWrites[] = "saves weights", kReads[] = "loads weights";

// The elements of a tensor that this rank writes, if it writes the tensor. They are whole rows, as
// torch.chunk cuts them. The first rank writes a tensor without elements.
std::optional<Range> chunk_of(const TensorInfo& tensor, comm::Mesh& mesh) {
  const fsdp::Layout cut({{tensor.name, Shape(tensor.shape)}}, ranks_of(mesh), /*alignment=*/1,
                         fsdp::LayoutKind::per_parameter);
  const Range chunk = cut.piece(0, rank_of(mesh)).in_parameter;
  const bool first = tensor.numel() == 0 && rank_of(mesh) == 0;
  return first || !chunk.empty() ? std::optional(chunk) : std::nullopt;
}

// Requires that the directory has no weights, because readers take every .safetensors file in it
// for a part of the weights, or those that an index names.
void require_no_weights(const std::filesystem::path& directory) {
  std::error_code none;
  for (const std::filesystem::path& file : std::filesystem::directory_iterator(directory, none)) {
    if (file.extension() != ".safetensors" && file.stem().extension() != ".index") continue;
    NANOFSDP_REFUSE(.what = "weights to '" + directory.string() + "'",
                    .expected = "a directory without .safetensors files and their index",
                    .got = "'" + file.filename().string() + "'",
                    .hint = "name another one, or remove these");
  }
}

// The parts of a parameter that the ranks of the tensor group have, one behind the other.
// Collective.
// @param memory for them; no part needs it if the parameter is whole
Tensor gather_parts(fsdp::ShardedModel& model, const nn::Parameter& parameter, Buffer& memory) {
  if (parameter.part.ranks == 1) return parameter.data;
  const Tensor part = parameter.data.view({parameter.data.numel()});
  const std::int64_t all = part.numel() * parameter.part.ranks;
  memory = model.context().buffer(MemoryClass::communication, all, part.dtype());
  const Tensor parts = memory.tensor({all}, part.dtype());
  model.stream().wait(model.mesh().tensor().all_gather(model.stream(), part, parts,
                                                       {.unit = parameter.name, .control = true}));
  return parts;
}

// The whole parameter, in `room` if it consists of parts.
std::span<const float> put_together(const nn::Parameter& parameter, std::span<const float> parts,
                                    std::vector<float>& room) {
  Blocks blocks = blocks_of(parameter);
  if (blocks.is_whole()) return parts;
  room.resize(parts.size());
  auto from = parts.begin();
  for (blocks.rank = 0; blocks.rank < blocks.ranks; ++blocks.rank) {
    for (const Range& range : blocks.in_whole({0, parameter.shape.numel()})) {
      std::copy_n(from, range.size(), room.begin() + range.begin);
      from += range.size();
    }
  }
  return room;
}

// Gathers the model unit by unit. Each rank that has a writer writes the part of each tensor that
// `part_of` returns, if it returns one.
void write_whole(fsdp::ShardedModel& model, std::optional<SafetensorsWriter>& writer,
                 const std::function<std::optional<Range>(const TensorInfo&)>& part_of) {
  std::exception_ptr failure;  // thrown later, when all ranks can learn of it
  std::vector<float> room, in_order;
  model.summon_full_parameters([&](const nn::Parameter& parameter) {
    Buffer memory;
    const Tensor parts = gather_parts(model, parameter, memory);
    if (!writer || failure) return;
    const auto whole =
        put_together(parameter, on_host<float>(model.stream(), parts, room), in_order);
    const auto busy = model.mesh().world().busy(kWrites);
    const std::optional<Range> part = part_of(info_of(parameter));
    if (!part) return;
    try {
      writer->append(whole.subspan(static_cast<std::size_t>(part->begin),
                                   static_cast<std::size_t>(part->size())));
    } catch (const UsageError&) {
      failure = std::current_exception();
    }
  });
  together(model, kWrites, [&](FileRecord&) {
    if (failure) std::rethrow_exception(failure);
    if (writer) writer->finish();
  });
}

}  // namespace

std::filesystem::path weights_path(const std::string& out_dir) {
  return std::filesystem::path(out_dir) / "model.safetensors";
}

TensorInfo info_of(const nn::Parameter& parameter) {
  const Shape shape = whole_shape(parameter);
  const auto dims = shape.dims();
  return {parameter.name, {dims.begin(), dims.end()}, name_in_file(parameter.dtype)};
}

std::vector<TensorInfo> infos_of(fsdp::ShardedModel& model) {
  std::vector<TensorInfo> infos;
  for (const fsdp::ShardedParameters* row : model.rows())
    for (const nn::Parameter* parameter : row->parameters()) infos.push_back(info_of(*parameter));
  return infos;
}

void require_names(fsdp::ShardedModel& model, std::span<const std::string> states) {
  const comm::Communicator& tensor = model.mesh().tensor();
  std::set<std::string> names;
  for (const fsdp::ShardedParameters* row : model.rows()) {
    for (const nn::Parameter* parameter : row->parameters()) {
      add_name(names, parameter->name);
      const auto& [dim, part, parts, groups] = parameter->part;
      const Shape& shape = parameter->shape;
      NANOFSDP_CHECK(parts == 1 || (part == tensor.rank() && dim >= 0 && dim < shape.rank() &&
                                    groups > 0 && shape[dim] % groups == 0),
                     .what = "parameter " + parameter->name,
                     .expected = fmt::format("part {} of {} of equal groups in a dimension",
                                             tensor.rank(), tensor.size()),
                     .got = fmt::format("part {} of {}, dimension {} of {} in {} groups", part,
                                        parts, dim, shape.str(), groups));
      for (std::size_t i = 0; row->trains() && i < states.size(); ++i)
        add_name(names, parameter->name + "." + states[i]);
    }
  }
}

int rank_of(comm::Mesh& mesh) { return mesh.rank() * mesh.tensor().size() + mesh.tensor().rank(); }

int ranks_of(comm::Mesh& mesh) { return mesh.size() * mesh.tensor().size(); }

std::vector<FileRecord> together(fsdp::ShardedModel& model, const std::string& at,
                                 const std::function<void(FileRecord& mine)>& part) {
  struct Outcome {
    FileRecord record;
    std::array<char, 1264> why{};
  } mine;
  const auto fail = [&](const std::string& why) { why.copy(mine.why.data(), sizeof mine.why - 1); };
  comm::Communicator &world = model.mesh().world(), &tensor = model.mesh().tensor();
  try {
    const auto busy = world.busy(at);
    if (!is_simulated(model.context().device)) part(mine.record);
  } catch (const UsageError& error) {
    fail(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    fail(describe(
        {.what = "cannot write '" + error.path1().string() + "'", .got = error.code().message()}));
  }
  const auto words = [](Outcome* first, int count) {  // no collective interprets them
    return Tensor(first, {count * std::int64_t{sizeof(Outcome) / 8}}, DType::float64);
  };
  std::vector<Outcome> near(static_cast<std::size_t>(tensor.size())),
      all(static_cast<std::size_t>(ranks_of(model.mesh())));
  comm::gather_on_host(tensor, model.stream(), words(&mine, 1), words(near.data(), tensor.size()),
                       at);
  comm::gather_on_host(world, model.stream(), words(near.data(), tensor.size()),
                       words(all.data(), ranks_of(model.mesh())), at);
  std::vector<FileRecord> records;
  for (const auto& [record, why] : all) {
    NANOFSDP_REFUSE_IF(why[0] != '\0', .what = why.data());
    records.push_back(record);
  }
  return records;
}

void save_weights(const std::string& out_dir, fsdp::ShardedModel& model, Metadata metadata) {
  for (const char* of_ranks : {kShardingInfo, kShards}) metadata.erase(of_ranks);
  require_names(model);
  std::optional<SafetensorsWriter> writer;
  together(model, kWrites, [&](FileRecord&) {
    if (rank_of(model.mesh()) > 0) return;
    if (!out_dir.empty()) std::filesystem::create_directories(out_dir);
    writer.emplace(weights_path(out_dir).string(), infos_of(model), metadata);
  });
  write_whole(model, writer, [](const TensorInfo& tensor) { return Range{0, tensor.numel()}; });
}

void save_sharded_weights(const std::string& directory, fsdp::ShardedModel& model,
                          Metadata metadata, DType dtype) {
  comm::Mesh& mesh = model.mesh();
  require_names(model);
  std::vector<TensorInfo> boxes;
  auto sharding = nlohmann::json::object();
  for (TensorInfo& tensor : infos_of(model)) {
    const std::optional<Range> chunk = chunk_of(tensor, mesh);
    if (!chunk) continue;
    std::vector<std::int64_t> offsets(tensor.shape.size());
    if (!offsets.empty() && !chunk->empty()) {
      const std::int64_t row = tensor.numel() / tensor.shape[0];
      offsets[0] = chunk->begin / row, tensor.shape[0] = chunk->size() / row;
    }
    if (dtype == DType::bfloat16) tensor.dtype = name_in_file(dtype);
    sharding[tensor.name][kSavedOffsets] = offsets;
    boxes.push_back(std::move(tensor));
  }
  metadata[kShardingInfo] = sharding.dump();
  metadata[kShards] = fmt::to_string(ranks_of(mesh));
  const std::string name =
      fmt::format("shard-{:05}-model-00001-of-00001.safetensors", rank_of(mesh) + 1);
  together(model, kWrites, [&](FileRecord&) {
    if (rank_of(mesh) > 0) return;
    if (!directory.empty()) std::filesystem::create_directories(directory);
    require_no_weights(directory);
  });
  std::optional<SafetensorsWriter> writer;
  together(model, kWrites, [&](FileRecord&) {
    writer.emplace((std::filesystem::path(directory) / name).string(), std::move(boxes), metadata);
  });
  write_whole(model, writer, [&](const TensorInfo& tensor) { return chunk_of(tensor, mesh); });
}

void load_weights(const std::string& out_dir, fsdp::ShardedModel& model) {
  for (const fsdp::Unit& unit : model.units()) unit.require_at_rest("loading of weights");
  require_names(model);
  std::optional<WeightsFiles> files;
  together(model, kReads, [&](FileRecord&) {
    files.emplace(out_dir);
    require_same_tensors(infos_of(model), files->tensors(), "weights '" + files->path() + "'");
  });  // now every rank knows that all files are good, before it uses one
  together(model, kReads, [&](FileRecord&) {
    for (fsdp::ShardedParameters* row : model.rows()) {
      const auto parameters = row->parameters();
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const std::vector<float> whole = files->read(info_of(*parameters[i]));
        const Blocks mine = blocks_of(*parameters[i]);
        std::vector<float> part;  // stays empty if it is the whole
        const std::int64_t numel = mine.is_whole() ? 0 : parameters[i]->shape.numel();
        for (const Range& range : mine.in_whole({0, numel}))
          part.insert(part.end(), whole.begin() + range.begin, whole.begin() + range.end);
        row->store(i, mine.is_whole() ? whole : part);
      }
    }
  });  // no rank replaces the files before all have read them
}

}  // namespace nanofsdp::store
