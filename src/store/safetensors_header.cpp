#include "store/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/json.h"

namespace nanofsdp::store {
namespace {

using nlohmann::json;

constexpr char kMetadata[] = "__metadata__";

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

bool are_integers(const json& list) {
  return list.is_array() &&
         std::ranges::all_of(list, [](const json& item) { return item.is_number_unsigned(); });
}

TensorInfo place(const std::string& name, const json& entry, const std::string& path) {
  const auto member = [&](const char* key, const char* kind, const auto& is_such) {
    const auto found = entry.find(key);
    if (found != entry.end() && is_such(*found)) return *found;
    malformed(path, fmt::format("tensor '{}' to have '{}', {}", name, key, kind));
  };
  constexpr char kIntegers[] = "a list of integers from 0 up";
  const std::vector<std::uint64_t> shape = member("shape", kIntegers, are_integers),
                                   offsets = member("data_offsets", kIntegers, are_integers);
  const std::string dtype = member("dtype", "a text", [](const json& j) { return j.is_string(); });
  std::uint64_t bytes = bytes_of_dtype(dtype);
  const bool known = bytes > 0;
  bool fits = offsets.size() == 2 && offsets[0] <= offsets[1];
  for (const std::uint64_t dim : shape) {
    fits = fits && (dim == 0 || bytes <= kMostBytes / dim);
    bytes *= dim;
  }
  if (!fits || (known && offsets[1] - offsets[0] != bytes))
    malformed(path, fmt::format("tensor '{}' to have as many bytes as its shape says", name),
              fmt::format("data_offsets [{}] for shape [{}] of {}", fmt::join(offsets, ", "),
                          fmt::join(shape, ", "), dtype));
  return {name, {shape.begin(), shape.end()}, dtype, offsets[0], offsets[1]};
}

// Adds "3 missing: a, b, c" to the faults, with at most four names. Adds nothing if there are no
// names.
void tell(std::vector<std::string>& faults, const char* fault,
          const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 4);
  if (shown == 0) return;
  faults.push_back(fmt::format("{} {}: {}{}", names.size(), fault,
                               fmt::join(names.begin(), names.begin() + shown, ", "),
                               shown < names.size() ? " ..." : ""));
}

}  // namespace

void malformed(const std::string& path, const std::string& expected, const std::string& got,
               const std::string& hint) {
  NANOFSDP_REFUSE(.what = "weights '" + path + "'", .expected = expected, .got = got, .hint = hint);
}

void require_tensor(const TensorInfo& wanted, const TensorInfo* found, const std::string& path) {
  if (found == nullptr) malformed(path, "a tensor '" + wanted.name + "'", "none of that name");
  if (!(*found == wanted))
    malformed(path,
              fmt::format("tensor '{}' of shape [{}]", wanted.name, fmt::join(wanted.shape, ", ")),
              fmt::format("[{}]", fmt::join(found->shape, ", ")));
  if (found->dtype == "F32" || found->dtype == "BF16" || found->dtype == "F16") return;
  malformed(path, fmt::format("tensor '{}' in F32, BF16 or F16", wanted.name), found->dtype,
            "convert it, as with tensor.to(torch.float32)");
}

void require_same_tensors(std::span<const TensorInfo> of_model, std::span<const TensorInfo> of_file,
                          const std::string& file) {
  std::vector<std::string> missing, surplus, reshaped, faults;
  std::map<std::string_view, const TensorInfo*> there;  // those that the model has not asked for
  for (const TensorInfo& tensor : of_file) there[tensor.name] = &tensor;
  for (const TensorInfo& tensor : of_model) {
    const auto found = there.extract(tensor.name);
    if (found.empty()) {
      if (tensor.numel() > 0) missing.push_back(tensor.name);
    } else if (found.mapped()->shape != tensor.shape) {
      reshaped.push_back(fmt::format("{} ([{}], not [{}])", tensor.name,
                                     fmt::join(found.mapped()->shape, ", "),
                                     fmt::join(tensor.shape, ", ")));
    }
  }
  for (const auto& [name, tensor] : there) surplus.emplace_back(name);
  tell(faults, "missing", missing);
  tell(faults, "surplus", surplus);
  tell(faults, "of another shape", reshaped);
  if (faults.empty()) return;
  NANOFSDP_REFUSE(.what = file,
                  .expected = fmt::format("the model's {} parameters", of_model.size()),
                  .got = fmt::format("{}", fmt::join(faults, "; ")),
                  .hint = "it was saved by another model, or by one of other sizes");
}

std::uint64_t bytes_of_dtype(const std::string& dtype) {
  if (dtype == "BOOL") return 1;
  const std::size_t bits = dtype.find_first_of("123456789");  // the digits of "BF16" or "F8_E4M3"
  return bits == dtype.npos ? 0 : std::strtoul(dtype.c_str() + bits, nullptr, 10) / 8;
}

std::int64_t TensorInfo::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

void add_name(std::set<std::string>& names, const std::string& name) {
  // Whether the name is UTF-8. If it is not, text_of() has replaced some bytes.
  const bool utf8 = json::parse(text_of(json(name))) == name;
  NANOFSDP_CHECK(utf8 && name != kMetadata && names.insert(name).second,
                 .what = "tensor " + text_of(json(name)),
                 .expected = "a name of its own in a file, in UTF-8", .hint = "rename a parameter");
}

std::string write_header(const SafetensorsHeader& header) {
  std::set<std::string> names;
  std::string text = "{", comma;
  if (!header.metadata.empty()) {
    text += fmt::format("\"{}\":{}", kMetadata, text_of(json(header.metadata)));
    comma = ",";
  }
  std::int64_t begin = 0;
  for (const TensorInfo& tensor : header.tensors) {
    add_name(names, tensor.name);
    const std::int64_t end =
        begin + tensor.numel() * static_cast<std::int64_t>(bytes_of_dtype(tensor.dtype));
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", comma,
                        text_of(json(tensor.name)), tensor.dtype, fmt::join(tensor.shape, ","),
                        begin, end);
    begin = end, comma = ",";
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  NANOFSDP_REFUSE_IF(
      text.size() > kLargestHeader, .what = fmt::format("header of {} tensors", names.size()),
      .expected = fmt::format("at most {} bytes", kLargestHeader),
      .got = fmt::to_string(text.size()), .hint = "write more files, with fewer tensors each");
  return text;
}

SafetensorsHeader parse_header(const std::string& text, std::uint64_t data_bytes,
                               const std::string& path) {
  SafetensorsHeader result;
  const Fault fault{.what = "weights '" + path + "'",
                    .expected = "a header that is a JSON object, with strings in __metadata__"};
  parse_json(text, fault, [&](const json& header) {
    if (!header.is_object()) throw std::invalid_argument("something else");
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        result.metadata = entry.get<Metadata>();
      } else {
        result.tensors.push_back(place(name, entry, path));
      }
    }
  });
  std::ranges::stable_sort(result.tensors, {}, [](const TensorInfo& tensor) {
    return std::pair(tensor.begin, tensor.end);
  });
  std::uint64_t next = 0;
  for (const TensorInfo& tensor : result.tensors) {
    if (tensor.begin != next)
      malformed(path, fmt::format("tensor '{}' at byte {} of the data", tensor.name, next),
                fmt::to_string(tensor.begin));
    next = tensor.end;
  }
  if (next == data_bytes) return result;
  malformed(path, fmt::format("{} bytes of data, as the header says", next),
            fmt::to_string(data_bytes));
}

}  // namespace nanofsdp::store
