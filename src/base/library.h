#pragma once

#include <string>

namespace nanofsdp {

/// @file
/// @brief Libraries that are loaded when they are first needed, not when the process starts.
///
/// cuBLASLt and NCCL are 760 MB that take the loader a tenth of a second: a run on the CPU does not
/// wait for them, and the program starts where they are missing.

/// A shared library, loaded until the process ends.
class Library {
 public:
  /// Looks for `name` where the system looks for libraries, then in `folder`.
  /// @throws UsageError that names both places
  Library(const std::string& name, const std::string& folder);

  /// The function of this name, which the caller knows to be an F.
  /// @throws UsageError if the library has none
  template <class F>
  F* find(const char* function) const {
    return reinterpret_cast<F*>(address_of(function));
  }

 private:
  void* address_of(const char* function) const;

  std::string name_;
  void* handle_;
};

}  // namespace nanofsdp

/// A member that is a function of the struct's `library`, with the name and the type that its
/// header declares: calls read as if it had been linked.
#define NANOFSDP_FUNCTION(name) decltype(&::name) name = library.find<decltype(::name)>(#name)
