#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace nanofsdp {

/// @file
/// @brief Memory that the ranks of one machine have in common: what collectives read lies here.
///
/// It is one file in memory without a name, cut into a part for each rank. Each process maps all of
/// it, at an address of its own. A rank allocates from its part and writes there. Its peers read,
/// and write no more than that they have come to a collective (comm/reading.h). The parts are as
/// large as the machine's memory, because addresses cost nothing: a page takes memory when it is
/// first written. The system frees all of it when the last process ends, however that ends.
///
/// Other users can neither open the file nor read a rank's memory: the system lets only a process's
/// own user do that. This user's debuggers may, and a core dump has what its rank has allocated.

/// The mapping of one rank. allocate() and release() are safe to call from any of its threads.
class SharedMemory {
 public:
  /// Bytes of a part, where `parts` ranks share memory.
  static std::size_t part_bytes(int parts);

  /// Maps a file that holds `parts` parts (open_shared_file() in base/platform.h). The descriptor
  /// may be closed afterwards.
  /// @param mine the part from which this process allocates
  /// @throws Error if the system refuses
  SharedMemory(int descriptor, int parts, int mine);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Whole pages of this rank's part, zeroed.
  /// @throws Error if the part is full
  void* allocate(std::size_t bytes);
  /// Frees what allocate() gave. Peers that still read it find zeros.
  void release(void* memory) noexcept;

  int parts() const { return parts_; }  ///< ranks that share it

  /// Whether the address lies in this rank's part.
  bool owns(const void* address) const;
  /// Where an address of this rank's part lies in it: the same number in every process.
  std::uint64_t offset_of(const void* address) const;
  /// What lies at this offset of a rank's part.
  std::byte* at(int part, std::uint64_t offset) const;

 private:
  void clear(void* first, std::size_t bytes) noexcept;

  const int parts_, mine_;
  const std::size_t part_bytes_;
  std::byte* first_ = nullptr;
  bool pages_go_ = false;                      // whether the system takes pages back
  std::mutex mutex_;                           // of:
  std::map<std::size_t, std::size_t> ends_{};  // where allocations begin and end, in this part
};

}  // namespace nanofsdp
