#pragma once

#include <string>

namespace nanofsdp {

/// @file
/// @brief Shared libraries that are loaded at their first use, not when the process starts.
///
/// cuBLASLt and NCCL have 760 MB, and loading them takes a tenth of a second. A run on the CPU does
/// not need them, and the program starts on machines that do not have them.

/// A shared library. It stays loaded until the process ends.
class Library {
 public:
  /// Looks for `name` in the places where the system looks for libraries, then in `folder`.
  /// @throws UsageError that names both places
  Library(const std::string& name, const std::string& folder);

  /// The address of the function of this name.
  /// @throws UsageError if the library has no such function
  void* find(const char* function) const;

 private:
  std::string name_;
  void* handle_;
};

}  // namespace nanofsdp

/// Declares a member of a struct that has a `library`: a function of it, with the name and the type
/// that its header declares. A call reads as if the function had been linked.
#define NANOFSDP_FUNCTION(name) \
  decltype(&::name) name = reinterpret_cast<decltype(&::name)>(library.find(#name))
