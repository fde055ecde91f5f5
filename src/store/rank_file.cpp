#include "store/rank_file.h"

#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/transfer.h"
#include "store/safetensors.h"

namespace nanofsdp::store {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kPt[] = "pt";  // tells PyTorch's readers that the tensors are PyTorch's

// The pieces that exist of a parameter, and the files that hold them.
struct Pieces {
  std::vector<std::int64_t> shape;
  std::vector<fsdp::Range> ranges;
  std::vector<const SafetensorsFile*> files;  // the file of each range
  std::optional<std::int64_t> steps;
};
using Index = std::map<std::string, Pieces>;

void add_to_index(Index& index, const fs::path& path, const SafetensorsFile& rank_file) {
  const Fault fault{.what = "checkpoint file '" + path.string() + "'",
                    .expected = "metadata that say which pieces of parameters it has"};
  for (const auto& [name, text] : rank_file.metadata()) {
    if (text == kPt) continue;  // the format's own entry, unless a parameter has this name
    Pieces& pieces = index[name];
    parse_json(text, fault, [&, name = name](const json& place) {
      const json &shape = place.at("shape"), &range = place.at("range");
      if (pieces.files.empty()) pieces.shape = shape.get<std::vector<std::int64_t>>();
      if (shape != json(pieces.shape)) throw std::invalid_argument(name + " has two shapes");
      if (place.contains("step")) pieces.steps = place.at("step").get<std::int64_t>();
      pieces.ranges.push_back({range.at(0), range.at(1)});
      const auto [begin, end] = pieces.ranges.back();
      if (begin < 0 || begin > end) throw std::invalid_argument(name + " has no such range");
      pieces.files.push_back(&rank_file);
    });
  }
}

}  // namespace

FileRecord write_rank_file(const fs::path& path, Stream& stream,
                           const std::vector<StateSlice>& slices) {
  std::vector<TensorInfo> tensors;
  Metadata metadata{{"format", kPt}};
  for (const StateSlice& slice : slices) {
    for (const auto& [name, values] : slice.tensors)
      tensors.push_back({name, {values.numel()}, name_in_file(values.dtype())});
    json place = {{"shape", slice.parameter.shape.dims()},
                  {"range", {slice.range.begin, slice.range.end}}};
    if (slice.steps != nullptr) place["step"] = *slice.steps;
    metadata[slice.parameter.name] = place.dump();
  }
  SafetensorsWriter writer(path.string(), std::move(tensors), metadata);
  std::vector<float> room;
  for (const StateSlice& slice : slices) {
    for (const auto& [name, values] : slice.tensors) {
      writer.append(on_host<float>(stream, values, room));
    }
  }
  const NewFile& file = writer.finish();
  return {file.bytes(), file.fingerprint()};
}

void read_rank_files(const fs::path& directory, std::size_t files, Stream& stream,
                     std::span<const TensorInfo> model, const std::vector<StateSlice>& slices,
                     std::int64_t steps) {
  Index index;
  std::deque<SafetensorsFile> opened;
  for (std::size_t rank = 0; rank < files; ++rank) {
    const fs::path path = directory / rank_file_name(rank, files);
    add_to_index(index, path, opened.emplace_back(path.string()));
  }
  std::vector<TensorInfo> there;
  for (const auto& [name, pieces] : index) there.push_back({name, pieces.shape});
  require_same_tensors(model, there, "checkpoint '" + directory.string() + "'");

  std::vector<float> room;
  for (const StateSlice& slice : slices) {
    const Pieces& pieces = index[slice.parameter.name];
    const auto items = plan_reads(slice.range, pieces.ranges);
    NANOFSDP_REFUSE_IF(!items, .what = "checkpoint '" + directory.string() + "'",
                       .expected = "all of the model's parameter " + slice.parameter.name,
                       .got = "gaps, or elements that are there twice");
    if (slice.steps != nullptr) *slice.steps = pieces.steps.value_or(steps);
    for (const ReadItem& item : *items) {
      for (const auto& [name, values] : slice.tensors) {
        const Tensor to = values.slice(item.in_wanted.begin, item.in_wanted.size());
        room.resize(static_cast<std::size_t>(to.numel()));
        pieces.files[item.saved]->read({name, {pieces.ranges[item.saved].size()}},
                                       item.in_saved.begin, room);
        transfer(stream, Tensor(room.data(), to.shape()), to);
      }
    }
  }
}

}  // namespace nanofsdp::store
