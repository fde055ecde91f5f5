#include "store/weights_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"

namespace nanofsdp::store {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMostOfIndex = 1 << 26;  // largest size of an index in bytes

// The files that Hugging Face's index beside them names.
std::set<std::string> files_of_index(const fs::path& path) {
  const Fault fault{.what = "index '" + path.string() + "'",
                    .expected = "JSON with weight_map, the file of each tensor"};
  return parse_json(read_file(path.string(), fault, kMostOfIndex), fault, [](const json& index) {
    std::set<std::string> names;
    for (const json& name : index.at("weight_map")) names.insert(name);
    if (names.empty()) throw std::invalid_argument("no file");
    return names;
  });
}

// The paths of the files in a directory, in the order of their names. If there is an index, it says
// which files belong together. If not, the numbers in their names do.
std::vector<std::string> files_in(const fs::path& directory) {
  static const std::regex numbered(R"((?:shard-\d+-)?model-\d+-of-(\d{1,9})\.safetensors)");
  const std::string one = (directory / "model.safetensors").string(), index = one + ".index.json";
  std::error_code none;
  if (fs::exists(one, none)) return {one};
  std::set<std::string> all, of_one;  // the files whose names have numbers
  std::string count;
  for (const fs::path& file : fs::directory_iterator(directory, none)) {
    const std::string name = file.filename().string();
    if (file.extension() == ".safetensors") all.insert(name);
    std::smatch match;
    if (std::regex_match(name, match, numbered)) of_one.insert(name), count = match[1];
  }
  if (fs::exists(index, none)) {
    all = files_of_index(index);
  } else if (!of_one.empty()) {
    all = of_one;
    const bool of_ranks = all.begin()->starts_with("shard-");
    if (!of_ranks && std::stoll(count) != std::ssize(all))
      malformed(directory.string(), count + " files of one model", fmt::to_string(all.size()));
  }
  std::vector<std::string> paths;
  for (const std::string& name : all) paths.push_back((directory / name).string());
  return paths.empty() ? std::vector{one} : paths;
}

// The end of a box in its tensor, along one dimension.
std::int64_t end_of(const Box& box, std::size_t dim) {
  return box.offsets[dim] + box.saved.shape[dim];
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.offsets.size(); ++d)
    if (std::max(a.offsets[d], b.offsets[d]) >= std::min(end_of(a, d), end_of(b, d))) return false;
  return true;
}

// Copies the elements of a box to their places in the tensor, row by row of the last dimension.
void place(const Box& box, std::span<const float> values, std::span<const std::int64_t> shape,
           std::span<float> whole) {
  const std::vector<std::int64_t>& sizes = box.saved.shape;
  const std::size_t row = sizes.empty() ? 1 : static_cast<std::size_t>(sizes.back());
  for (std::size_t first = 0; first < values.size(); first += row) {
    // Index within the dimensions that are left, row-major.
    auto index = static_cast<std::int64_t>(first);
    std::int64_t to = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d], index /= sizes[d])
      to += (box.offsets[d] + index % sizes[d]) * stride;
    std::ranges::copy(values.subspan(first, row),
                      whole.subspan(static_cast<std::size_t>(to)).begin());
  }
}

}  // namespace

WeightsFiles::WeightsFiles(const fs::path& directory) {
  const std::vector<std::string> paths = files_in(directory);
  path_ = paths.size() == 1 ? paths[0] : directory.string();
  for (std::size_t file = 0; file < paths.size(); ++file) add(file, paths[file]);
  const auto shards = metadata().find(kShards);
  const bool sharded = shards != metadata().end() && metadata().contains(kShardingInfo);
  if (sharded && shards->second != fmt::to_string(paths.size()))
    malformed(directory.string(), fmt::format("{} files of one model", shards->second),
              fmt::to_string(paths.size()));
  for (const auto& [name, boxes] : boxes_) tensors_.push_back(whole(name, boxes));
}

void WeightsFiles::add(std::size_t file, const std::string& path) {
  const SafetensorsFile& from = files_.emplace_back(path);
  const auto sharding = from.metadata().find(kShardingInfo);
  const bool sharded = sharding != from.metadata().end();
  const Fault fault{
      .what = "weights '" + path + "'",
      .expected = fmt::format("its '{}' to say where each tensor begins", kShardingInfo)};
  parse_json(sharded ? sharding->second : "{}", fault, [&](const json& info) {
    for (const TensorInfo& tensor : from.tensors()) {
      Box box{file, tensor, std::vector<std::int64_t>(tensor.shape.size())};
      if (sharded) info.at(tensor.name).at(kSavedOffsets).get_to(box.offsets);
      std::vector<Box>& boxes = boxes_[tensor.name];
      const std::size_t dims = boxes.empty() ? tensor.shape.size() : boxes[0].offsets.size();
      bool fits = box.offsets.size() == dims && tensor.shape.size() == dims;
      for (std::size_t d = 0; fits && d < dims; ++d)
        fits = box.offsets[d] >= 0 && box.offsets[d] <= kMostElements - tensor.shape[d];
      if (!fits) throw std::invalid_argument(fmt::format("'{}' at {}", tensor.name, box.offsets));
      boxes.push_back(std::move(box));
    }
  });
}

// The tensor that the boxes fill. If no two boxes overlap, they fill it if they have its number of
// elements.
TensorInfo WeightsFiles::whole(const std::string& name, const std::vector<Box>& boxes) const {
  TensorInfo tensor{name, boxes[0].offsets};
  double expected = 1, got = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto twice = [&](const Box& other) { return overlap(other, boxes[i]); };
    if (std::any_of(boxes.begin(), boxes.begin() + i, twice))
      malformed(path_, fmt::format("every element of '{}' once", name), "some of them twice",
                "is there a file of other weights?");
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
      tensor.shape[d] = std::max(tensor.shape[d], end_of(boxes[i], d));
    got += static_cast<double>(boxes[i].saved.numel());
  }
  for (const std::int64_t dim : tensor.shape) expected *= static_cast<double>(dim);
  if (expected == got) return tensor;
  malformed(path_, fmt::format("all {} elements of '{}'", expected, name),
            fmt::format("{} of them", got), "is a file missing?");
}

std::vector<float> WeightsFiles::read(const TensorInfo& wanted) const {
  if (wanted.numel() == 0) return {};  // a file may lack the tensor
  const auto found = std::ranges::lower_bound(tensors_, wanted.name, {}, &TensorInfo::name);
  const bool none = found == tensors_.end() || found->name != wanted.name;
  require_tensor(wanted, none ? nullptr : &*found, path_);
  const std::vector<Box>& boxes = boxes_.at(wanted.name);
  if (boxes.size() == 1) return files_[boxes[0].file].read(wanted);
  std::vector<float> values(static_cast<std::size_t>(wanted.numel()));
  for (const Box& box : boxes) place(box, files_[box.file].read(box.saved), wanted.shape, values);
  return values;
}

}  // namespace nanofsdp::store
