#include "train/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"

namespace nanofsdp::train {
namespace {

constexpr char kMetadata[] = "__metadata__";

/// a * b, or nothing if that is no 64-bit byte count.
bool multiply(std::uint64_t& a, std::uint64_t b) {
  if (b != 0 && a > std::uint64_t(std::numeric_limits<std::int64_t>::max()) / b) return false;
  a *= b;
  return true;
}

/// A tensor and its bytes [begin, end) of the data.
struct Placed {
  std::uint64_t begin;
  std::uint64_t end;
  TensorInfo info;
};

class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path) {}

  SafetensorsHeader parse(const std::string& text, std::uint64_t data_bytes) const;

 private:
  std::vector<std::uint64_t> integers(const nlohmann::json& entry, const std::string& name,
                                      const char* key) const;
  Placed place(const std::string& name, const nlohmann::json& entry) const;
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    throw UsageError({.what = "weights '" + path_ + "'", .expected = expected, .got = got});
  }

  const std::string& path_;
};

std::vector<std::uint64_t> Parser::integers(const nlohmann::json& entry, const std::string& name,
                                            const char* key) const {
  const bool present = entry.is_object() && entry.contains(key);
  const auto is_unsigned = [](const nlohmann::json& item) { return item.is_number_unsigned(); };
  if (!present || !entry[key].is_array() ||
      !std::all_of(entry[key].begin(), entry[key].end(), is_unsigned)) {
    fail(fmt::format("tensor '{}' to have '{}', a list of integers from 0 up", name, key),
         present ? "something else" : "none");
  }
  return entry[key].get<std::vector<std::uint64_t>>();
}

Placed Parser::place(const std::string& name, const nlohmann::json& entry) const {
  const auto shape = integers(entry, name, "shape");
  const auto offsets = integers(entry, name, "data_offsets");
  if (entry.value("dtype", nlohmann::json()) != "F32") {
    fail(fmt::format("tensor '{}' in F32", name), "another dtype");
  }
  std::uint64_t bytes = sizeof(float);
  bool fits = offsets.size() == 2 && offsets[0] <= offsets[1];
  for (const std::uint64_t dim : shape) fits = fits && multiply(bytes, dim);
  if (!fits || offsets[1] - offsets[0] != bytes) {
    fail(fmt::format("tensor '{}' to have as many bytes as its shape says", name),
         fmt::format("data_offsets [{}] for shape [{}]", fmt::join(offsets, ", "),
                     fmt::join(shape, ", ")));
  }
  return {offsets[0], offsets[1], {name, {shape.begin(), shape.end()}}};
}

SafetensorsHeader Parser::parse(const std::string& text, std::uint64_t data_bytes) const {
  SafetensorsHeader header;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail("a header that is a JSON object", "something else");

  std::vector<Placed> placed;
  for (const auto& item : json.items()) {
    if (item.key() != kMetadata) {
      placed.push_back(place(item.key(), item.value()));
      continue;
    }
    if (!item.value().is_object()) fail("__metadata__ to be a JSON object", "something else");
    for (const auto& pair : item.value().items()) {
      if (!pair.value().is_string()) fail("strings in __metadata__", "another type");
      header.metadata[pair.key()] = pair.value().get<std::string>();
    }
  }

  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t next = 0;
  for (Placed& tensor : placed) {
    if (tensor.begin != next) {
      fail(fmt::format("tensor '{}' at byte {} of the data", tensor.info.name, next),
           fmt::to_string(tensor.begin));
    }
    next = tensor.end;
    header.tensors.push_back(std::move(tensor.info));
  }
  if (next != data_bytes) {
    fail(fmt::format("{} bytes of data, as the header says", next), fmt::to_string(data_bytes));
  }
  return header;
}

}  // namespace

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

SafetensorsHeader parse_header(const std::string& json, std::uint64_t data_bytes,
                               const std::string& path) {
  return Parser(path).parse(json, data_bytes);
}

}  // namespace nanofsdp::train
