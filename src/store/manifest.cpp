#include "store/manifest.h"

#include <fmt/format.h>

#include <stdexcept>

#include "base/check.h"
#include "base/fingerprint.h"
#include "base/json.h"

namespace nanofsdp::store {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FileRecord, bytes, fingerprint)
namespace {

using nlohmann::json;

constexpr char kFormat[] = "nanofsdp checkpoint, version 2";
constexpr char kFormat1[] = "nanofsdp checkpoint, version 1";
constexpr char kFingerprint[] = "fingerprint";

// The fingerprint of all other values, without blanks and with keys in order.
std::uint64_t fingerprint_of(json j) {
  j.erase(kFingerprint);
  return fingerprint(text_of(j));
}

// The members are set one by one, because of a bug in GCC 12: if a conversion throws inside one
// large initialiser, the program may free finished members twice.
Manifest from_json(const json& j) {
  Manifest manifest;
  manifest.fingerprint = j.at(kFingerprint);
  manifest.optimizer_steps = j.at("optimizer_steps");
  // Version 1 of the format kept the trainer's values among those of the checkpoint.
  manifest.metadata = j.at("format") == kFormat ? j.at("metadata").get<Metadata>() : texts_of(j);
  const json& files = j.at("files");
  for (std::size_t rank = 0; rank < files.size(); ++rank)
    manifest.files.push_back(files.at(rank_file_name(rank, files.size())));
  if (manifest.optimizer_steps < 0 || manifest.files.empty())
    throw std::invalid_argument("steps that make no sense, or no files");
  return manifest;
}

}  // namespace

std::string rank_file_name(std::size_t rank, std::size_t ranks) {
  return fmt::format("rank_{}_of_{}.safetensors", rank, ranks);
}

std::string write_manifest(const Manifest& manifest) {
  json j = {{"format", kFormat},
            {"optimizer_steps", manifest.optimizer_steps},
            {"metadata", manifest.metadata},
            {"files", json::object()}};
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank)
    j["files"][rank_file_name(rank, manifest.files.size())] = manifest.files[rank];
  j[kFingerprint] = fingerprint_of(j);
  const std::string text = j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  NANOFSDP_REFUSE_IF(text.size() > kLargestManifest, .what = "manifest of a checkpoint",
                     .expected = fmt::format("at most {} bytes", kLargestManifest),
                     .got = fmt::to_string(text.size()), .hint = "keep less in its metadata");
  return text;
}

Manifest parse_manifest(const std::string& text, const std::string& path, const std::string& hint) {
  const Fault fault{.what = "checkpoint '" + path + "'",
                    .expected = "the manifest of a checkpoint",
                    .hint = hint};
  return parse_json(text, fault, [](const json& j) {
    const json none = "something else", format = j.is_object() ? j.value("format", none) : none;
    if (format != kFormat && format != kFormat1) throw std::invalid_argument(format.dump());
    if (j.at(kFingerprint) != fingerprint_of(j))
      throw std::invalid_argument("one whose fingerprint does not fit: it is damaged");
    return from_json(j);
  });
}

}  // namespace nanofsdp::store
