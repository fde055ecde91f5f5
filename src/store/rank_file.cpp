#include "store/rank_file.h"

#include <algorithm>
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

// Neighbouring elements in a file.
struct InFile {
  const SafetensorsFile* file;
  std::int64_t numel;  // elements of the tensor there
  std::int64_t first;  // the first of the elements that are meant
};

// The elements that exist of a parameter: ranges of the whole, and their places in the files.
struct Pieces {
  std::vector<std::int64_t> shape;
  std::vector<fsdp::Range> ranges;
  std::vector<InFile> places;
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
      if (pieces.ranges.empty()) pieces.shape = shape.get<std::vector<std::int64_t>>();
      if (shape != json(pieces.shape)) throw std::invalid_argument(name + " has two shapes");
      if (place.contains("step")) pieces.steps = place.at("step").get<std::int64_t>();
      const auto& [begin, end] = fsdp::Range{range.at(0), range.at(1)};
      const json blocks = place.value("blocks", json{1, 0, 1});
      const auto& [size, rank, ranks] = Blocks{blocks.at(0), blocks.at(1), blocks.at(2)};
      if (begin < 0 || begin > end || rank < 0 || rank >= ranks || size < 1 ||
          std::max(end, size) > kMostElements / ranks)
        throw std::invalid_argument(name + " has no such range");
      InFile in_file{&rank_file, end - begin, 0};
      rank_file.read({name, {in_file.numel}}, 0, {});  // throws unless the file has this number
      for (const fsdp::Range& run : Blocks{size, rank, ranks}.in_whole({begin, end})) {
        pieces.ranges.push_back(run);
        pieces.places.push_back(in_file);
        in_file.first += run.size();
      }
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
    const auto& [size, rank, ranks] = slice.blocks;
    if (!slice.blocks.is_whole()) place["blocks"] = {size, rank, ranks};
    metadata[slice.parameter.name] = place.dump();
  }
  SafetensorsWriter writer(path.string(), std::move(tensors), metadata);
  std::vector<float> room;
  for (const StateSlice& slice : slices)
    for (const auto& [name, values] : slice.tensors)
      writer.append(on_host<float>(stream, values, room));
  const NewFile& file = writer.finish();
  return {file.bytes(), file.fingerprint()};
}

void read_rank_files(const fs::path& directory, std::size_t files, Stream& stream,
                     std::span<const TensorInfo> model, const std::vector<StateSlice>& slices,
                     std::int64_t steps, bool writes) {
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
    const auto items = plan_reads(slice.blocks.in_whole(slice.range), pieces.ranges);
    NANOFSDP_REFUSE_IF(!items, .what = "checkpoint '" + directory.string() + "'",
                       .expected = "all of the model's parameter " + slice.parameter.name,
                       .got = "gaps, or elements that are there twice");
    if (writes && slice.steps != nullptr) *slice.steps = pieces.steps.value_or(steps);
    for (const auto& [name, values] : slice.tensors) {
      room.resize(static_cast<std::size_t>(values.numel()));
      auto to = std::span(room);
      for (const ReadItem& item : *items) {
        const auto count = static_cast<std::size_t>(writes ? item.in_saved.size() : 0);
        const auto& [file, numel, first] = pieces.places[item.saved];
        file->read({name, {numel}}, first + item.in_saved.begin, to.first(count));
        to = to.subspan(count);
      }
      if (writes) transfer(stream, Tensor(room.data(), values.shape()), values);
    }
  }
}

}  // namespace nanofsdp::store
