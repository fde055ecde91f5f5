#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/check.h"
#include "support/sha256.h"
#include "support/temporary_directory.h"

namespace nanofsdp::testing {

inline const std::filesystem::path kGolden = NANOFSDP_SOURCE_DIR "/tests/parity/golden";

/// Reads a file of PyTorch's results. golden.py wrote it, and the manifest has its hash.
/// @throws UsageError if the file or the manifest is missing or was changed
inline std::string golden(const std::string& name, const std::filesystem::path& folder = kGolden) {
  const auto fail = [&](const std::string& expected, const std::string& got) {
    throw UsageError({.what = "golden file " + (folder / name).string(),
                      .expected = expected,
                      .got = got,
                      .hint = "`git checkout tests/parity/golden` brings it back"});
  };
  const auto read = [&](const std::filesystem::path& path) {
    if (!std::filesystem::is_regular_file(path)) fail("a file", "no " + path.filename().string());
    return read_file(path.string());
  };
  const auto manifest = nlohmann::json::parse(read(folder / "manifest.json"), nullptr, false);
  if (manifest.is_discarded() || !manifest.contains("files")) fail("its manifest", "not JSON");
  if (!manifest["files"].contains(name)) fail("a line in manifest.json", "none");
  const std::string text = read(folder / name);
  const std::string want = manifest["files"][name]["sha256"];
  const std::string have = sha256(std::span<const char>(text));
  if (have != want) fail("SHA-256 " + want, have);
  return text;
}

}  // namespace nanofsdp::testing
