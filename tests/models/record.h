#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace models {

/// @file
/// @brief The records of a program, and the first difference of two records.

/// One result of a rank, such as "step 1, micro-step 0: output".
struct Entry {
  std::string what;
  std::vector<float> values;
};

/// Elements [begin, begin + size) of a parameter and of its moments, which a rank owns.
struct Slice {
  std::string parameter;
  std::int64_t begin = 0;
  std::vector<float> values, m, v;  // no moments if it is frozen
  std::int64_t steps = 0;           // steps of the optimizer
};

struct Record {
  std::vector<Entry> entries;
  std::vector<Slice> slices;

  void add(std::string what, std::span<const float> values) {
    entries.push_back({std::move(what), {values.begin(), values.end()}});
  }
};

/// One record for each rank.
using Records = std::vector<Record>;

/// Compares bit by bit. Empty: they are equal.
inline std::string difference(std::span<const float> expected, std::span<const float> got) {
  if (expected.size() != got.size()) {
    return fmt::format("expected {} elements, got {}", expected.size(), got.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(expected[i]) == std::bit_cast<std::uint32_t>(got[i])) continue;
    return fmt::format("element {}: expected {}, got {}", i, expected[i], got[i]);
  }
  return "";
}

/// The first difference between the results of a rank, in words.
inline std::string difference(const Record& expected, const Record& got) {
  for (std::size_t i = 0; i < expected.entries.size() && i < got.entries.size(); ++i) {
    const Entry &a = expected.entries[i], &b = got.entries[i];
    if (a.what != b.what) return fmt::format("expected {}, got {}", a.what, b.what);
    const std::string words = difference(a.values, b.values);
    if (!words.empty()) return a.what + ": " + words;
  }
  if (expected.entries.size() == got.entries.size()) return "";
  return fmt::format("expected {} entries, got {}", expected.entries.size(), got.entries.size());
}

/// The first difference between the elements that a rank owns. `expected` has each whole parameter.
inline std::string difference_of_slices(const Record& expected, const Record& got) {
  for (const Slice& slice : got.slices) {
    const auto is_whole = [&](const Slice& whole) { return whole.parameter == slice.parameter; };
    const auto whole = std::ranges::find_if(expected.slices, is_whole);
    if (whole == expected.slices.end()) return "a slice of an unknown " + slice.parameter;
    if (slice.steps != whole->steps) {
      return fmt::format("{}: expected {} steps, got {}", slice.parameter, whole->steps,
                         slice.steps);
    }
    const auto part = [&](const std::vector<float>& all) {
      return all.empty() ? std::span<const float>()
                         : std::span(all).subspan(slice.begin, slice.values.size());
    };
    const std::pair<const char*, std::string> found[] = {
        {"value", difference(part(whole->values), slice.values)},
        {"first moment", difference(part(whole->m), slice.m)},
        {"second moment", difference(part(whole->v), slice.v)}};
    for (const auto& [of, words] : found) {
      if (words.empty()) continue;
      return fmt::format("{} of {} from element {}: {}", of, slice.parameter, slice.begin, words);
    }
  }
  return "";
}

/// The number of elements of all slices.
inline std::size_t owned(const Record& record) {
  std::size_t count = 0;
  for (const Slice& slice : record.slices) count += slice.values.size();
  return count;
}

inline std::string difference(const Records& expected, const Records& got) {
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    std::string words = difference(expected[rank], got[rank]);
    if (words.empty()) words = difference_of_slices(expected[rank], got[rank]);
    if (!words.empty()) return fmt::format("rank {}: {}", rank, words);
    count += owned(got[rank]);
  }
  const std::size_t all = owned(expected[0]);
  const bool whole = all == 0 || (count >= all && count % all == 0);
  return whole ? "" : fmt::format("ranks own {} elements of {}", count, all);
}

}  // namespace models
