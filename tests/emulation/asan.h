#pragma once

/// @file
/// @brief Reports fibers and memory to the address sanitizer, if there is one.

#if defined(__SANITIZE_ADDRESS__)
#define EMULATION_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATION_ASAN 1
#endif
#endif

#ifdef EMULATION_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) (static_cast<void>(memory))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) (static_cast<void>(memory))
#endif
