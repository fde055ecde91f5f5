#include "store/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace nanofsdp::store {
namespace {

using nlohmann::json;

constexpr char kMetadata[] = "__metadata__";

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

using Interval = std::pair<std::uint64_t, std::uint64_t>;  // bytes [first, second) of the data

/// What is wrong with a header; parse_header() adds the file's name.
struct Malformed {
  std::string expected;
  std::string got = "something else";
};

std::vector<std::uint64_t> integers(const json& entry, const std::string& name, const char* key) {
  const json list = entry.is_object() ? entry.value(key, json()) : json();
  const auto is_unsigned = [](const json& item) { return item.is_number_unsigned(); };
  if (!list.is_array() || !std::ranges::all_of(list, is_unsigned)) {
    throw Malformed{
        fmt::format("tensor '{}' to have '{}', a list of integers from 0 up", name, key)};
  }
  return list.get<std::vector<std::uint64_t>>();
}

std::pair<Interval, TensorInfo> place(const std::string& name, const json& entry) {
  const auto shape = integers(entry, name, "shape"),
             offsets = integers(entry, name, "data_offsets");
  if (entry.value("dtype", json()) != "F32") {
    throw Malformed{fmt::format("tensor '{}' in F32", name), "another dtype"};
  }
  std::uint64_t bytes = sizeof(float);
  bool fits = offsets.size() == 2 && offsets[0] <= offsets[1];
  for (const std::uint64_t dim : shape) {
    fits = fits && (dim == 0 || bytes <= kMostBytes / dim);
    bytes *= dim;
  }
  if (!fits || offsets[1] - offsets[0] != bytes) {
    throw Malformed{fmt::format("tensor '{}' to have as many bytes as its shape says", name),
                    fmt::format("data_offsets [{}] for shape [{}]", fmt::join(offsets, ", "),
                                fmt::join(shape, ", "))};
  }
  return {{offsets[0], offsets[1]}, {name, {shape.begin(), shape.end()}}};
}

SafetensorsHeader parse(const json& header, std::uint64_t data_bytes) {
  if (!header.is_object()) throw Malformed{"a header that is a JSON object"};
  SafetensorsHeader result;
  std::multimap<Interval, TensorInfo> placed;  // sorted by place
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) {
      placed.insert(place(name, entry));
      continue;
    }
    if (!entry.is_object()) throw Malformed{"__metadata__ to be a JSON object"};
    for (const auto& [key, text] : entry.items()) {
      if (!text.is_string()) throw Malformed{"strings in __metadata__"};
      result.metadata[key] = text.get<std::string>();
    }
  }
  std::uint64_t next = 0;
  for (const auto& [interval, tensor] : placed) {
    if (interval.first != next) {
      throw Malformed{fmt::format("tensor '{}' at byte {} of the data", tensor.name, next),
                      fmt::to_string(interval.first)};
    }
    next = interval.second;
    result.tensors.push_back(tensor);
  }
  if (next != data_bytes) {
    throw Malformed{fmt::format("{} bytes of data, as the header says", next),
                    fmt::to_string(data_bytes)};
  }
  return result;
}

// "3 missing: a, b, c"; of many names the first four. Nothing if there are none.
void tell(std::vector<std::string>& faults, const char* fault,
          const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 4);
  if (shown == 0) return;
  faults.push_back(fmt::format("{} {}: {}{}", names.size(), fault,
                               fmt::join(names.begin(), names.begin() + shown, ", "),
                               shown < names.size() ? " ..." : ""));
}

}  // namespace

void require_same_tensors(std::span<const TensorInfo> of_model, std::span<const TensorInfo> of_file,
                          const std::string& file) {
  std::vector<std::string> missing, surplus, reshaped, faults;
  for (const auto& [name, shape] : of_model) {
    const auto found = std::ranges::find(of_file, name, &TensorInfo::name);
    if (found == of_file.end()) {
      if (TensorInfo{name, shape}.numel() > 0) missing.push_back(name);
    } else if (found->shape != shape) {
      reshaped.push_back(fmt::format("{} ([{}], not [{}])", name, fmt::join(found->shape, ", "),
                                     fmt::join(shape, ", ")));
    }
  }
  for (const TensorInfo& tensor : of_file) {
    const auto found = std::ranges::find(of_model, tensor.name, &TensorInfo::name);
    if (found == of_model.end()) surplus.push_back(tensor.name);
  }
  tell(faults, "missing", missing);
  tell(faults, "surplus", surplus);
  tell(faults, "of another shape", reshaped);
  if (faults.empty()) return;
  throw UsageError({.what = file,
                    .expected = fmt::format("the model's {} parameters", of_model.size()),
                    .got = fmt::format("{}", fmt::join(faults, "; ")),
                    .hint = "it was saved by another model, or by one of other sizes"});
}

std::int64_t TensorInfo::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

std::string write_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  std::int64_t begin = 0;
  for (const TensorInfo& tensor : header.tensors) {
    NANOFSDP_CHECK(!json.contains(tensor.name) && tensor.name != kMetadata,
                   .what = "safetensors: tensor " + tensor.name, .expected = "a name of its own");
    const std::int64_t end = begin + tensor.numel() * std::int64_t{sizeof(float)};
    json[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  // What is not UTF-8 in the metadata is replaced: JSON cannot hold it.
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

SafetensorsHeader parse_header(const std::string& text, std::uint64_t data_bytes,
                               const std::string& path) try {
  return parse(json::parse(text, nullptr, /*allow_exceptions=*/false), data_bytes);
} catch (const Malformed& wrong) {
  throw UsageError(
      {.what = "weights '" + path + "'", .expected = wrong.expected, .got = wrong.got});
}

}  // namespace nanofsdp::store
