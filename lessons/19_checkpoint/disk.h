#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

/// @file
/// @brief A disk, and a computer that may stop after any operation, for lesson 19.

namespace lesson {

enum class Bytes { of_old, of_new, half };
using Disk = std::map<std::string, Bytes>;                    ///< files by name
using Writer = std::vector<std::function<void(Disk& disk)>>;  ///< operations, in their order

inline const std::vector<std::string> kRankFiles = {"rank_0", "rank_1", "rank_2", "rank_3"};

//! [reader]
// The reader takes the new directory if that has a manifest, and otherwise the old one. All files
// must be there, and from the same checkpoint.
inline bool usable(Disk disk) {
  const std::string directory = disk.contains("new/manifest") ? "new/" : "checkpoint/";
  if (!disk.contains(directory + "manifest")) return false;
  const Bytes kind = disk[directory + "manifest"];
  bool whole = kind != Bytes::half;
  for (const std::string& file : kRankFiles) {
    whole = whole && disk.contains(directory + file) && disk[directory + file] == kind;
  }
  return whole;
}
//! [reader]

/// Each file is emptied, then written.
inline Writer in_place() {
  Writer writer;
  std::vector<std::string> files = kRankFiles;
  files.push_back("manifest");
  for (const std::string& file : files) {
    for (const Bytes bytes : {Bytes::half, Bytes::of_new}) {
      writer.push_back([=](Disk& disk) { disk["checkpoint/" + file] = bytes; });
    }
  }
  return writer;
}

/// Renames a directory: replaces the files of `to` by those of `from`.
inline void rename(Disk& disk, const std::string& from, const std::string& to) {
  std::erase_if(disk, [&](const auto& file) { return file.first.starts_with(to); });
  for (const auto& [name, bytes] : Disk(disk)) {
    if (!name.starts_with(from)) continue;
    disk[to + name.substr(from.size())] = bytes;
    disk.erase(name);
  }
}

enum class Manifest { first, last };

//! [aside]
inline Writer aside(Manifest order) {
  Writer writer;
  std::vector<std::string> files = kRankFiles;
  files.insert(order == Manifest::first ? files.begin() : files.end(), "manifest");
  for (const std::string& file : files) {  // a file gets its name when all its bytes are written
    writer.push_back([=](Disk& disk) { disk["new/" + file] = Bytes::of_new; });
  }
  writer.push_back([](Disk& disk) { rename(disk, "checkpoint/", "previous/"); });
  writer.push_back([](Disk& disk) { rename(disk, "new/", "checkpoint/"); });
  return writer;
}
//! [aside]

/// After how many of the operations there is no usable checkpoint.
inline int unusable_after(const Writer& writer) {
  Disk disk = {{"checkpoint/manifest", Bytes::of_old}};
  for (const std::string& file : kRankFiles) disk["checkpoint/" + file] = Bytes::of_old;
  int count = 0;
  for (const auto& operation : writer) {
    operation(disk);
    count += usable(disk) ? 0 : 1;
  }
  return count;
}

}  // namespace lesson
