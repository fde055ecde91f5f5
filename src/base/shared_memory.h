#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace nanofsdp {

/// @file
/// @brief Memory that the ranks of one machine share. The data that collectives read lies here.
///
/// It is one file in memory without a name, cut into a part for each rank. Each process maps all of
/// it, at an address of its own. A rank allocates from its part and writes there. Its peers read
/// there. They write only the words by which they say that they take part in a collective
/// (comm/reading.h). Each part is as large as the machine's memory, because addresses cost nothing:
/// a page takes memory only when it is first written. When the last process ends, in any way, the
/// system frees all of it.
///
/// Other users cannot open the file or read a rank's memory: the system allows this only to the
/// user of the process. A debugger of this user can read it, and a core dump contains the memory
/// that its rank has allocated.

/// One process's mapping. Every thread of the process may call allocate() and release().
class SharedMemory {
 public:
  /// The size of a part in bytes, if `parts` ranks share memory.
  static std::size_t part_bytes(int parts);

  /// Maps a file that holds `parts` parts (open_shared_file() in base/platform.h). The descriptor
  /// may be closed afterwards.
  /// @param mine the part from which this process allocates
  /// @throws Error if the system refuses
  SharedMemory(int descriptor, int parts, int mine);
  ~SharedMemory();

  /// Allocates whole pages of this rank's part, zeroed.
  /// @throws Error if the part is full
  void* allocate(std::size_t bytes);
  /// Frees memory of allocate(). Peers that still read it find zeros.
  void release(void* memory) noexcept;

  int parts() const { return parts_; }  ///< the number of ranks that share the memory

  /// Whether the address lies in this rank's part.
  bool owns(const void* address) const { return offset_of(address) < part_bytes_; }
  /// The offset of an address within this rank's part. It means the same in every process.
  std::uint64_t offset_of(const void* address) const;
  /// The address of this offset within a rank's part.
  std::byte* at(int part, std::uint64_t offset) const;

 private:
  void clear(void* first, std::size_t bytes) noexcept;

  const int parts_, mine_;
  const std::size_t part_bytes_;
  std::byte* first_ = nullptr;
  bool pages_go_ = false;                      // whether the system takes pages back
  std::mutex mutex_;                           // guards ends_
  std::map<std::size_t, std::size_t> ends_{};  // begin and end of each allocation in this part
};

}  // namespace nanofsdp
