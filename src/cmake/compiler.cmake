# The compiler: is it new enough, and which flags make it fast? Everything lands in `nanofsdp_flags`, an
# interface library which our own code links and third-party code does not.
set(say STATUS)
if(NOT PROJECT_IS_TOP_LEVEL)
  set(say VERBOSE)  # how the library is built, within another project's build
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

set(needs_GNU 11)
set(needs_Clang 14)
set(needs_AppleClang 15)  # LLVM 16
set(needed "${needs_${CMAKE_CXX_COMPILER_ID}}")
if(NOT needed OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS needed)
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER}: ${CMAKE_CXX_COMPILER_ID} "
    "${CMAKE_CXX_COMPILER_VERSION} is too old: expected GCC >= 11 or Clang >= 14.\n"
    "  Debian/Ubuntu: sudo apt-get install g++-11, then the same make again, which will find it\n"
    "  elsewhere:     make CXX=/path/to/a/newer/compiler")
endif()

add_library(nanofsdp_flags INTERFACE)
target_compile_features(nanofsdp_flags INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)

# Plain -O3 would leave matrix products at a fifth of their speed. The other two let loops with a
# sqrtf or a comparison become vectors and change no result; -ffast-math would, so it stays out.
set(vectors -fno-math-errno -fno-trapping-math)
# For some processors (Zen 2 and 3 among them) GCC multiplies and adds apart where one sum waits for
# itself, as in a tile of one row. Then a row's bits would depend on how many rows are beside it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND vectors --param=avoid-fma-max-bits=0)
endif()
# Position independent, as the library may become a part of a shared object, such as a Python module. So
# are our programs: what is parsed once is parsed for all. A function of ours is never another's.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
list(APPEND vectors -fPIC $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
set(flags -march=${NANOFSDP_ARCH} ${vectors})
if(NANOFSDP_ARCH STREQUAL "native" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(flags -mcpu=native ${vectors})  # how GCC and Clang say it on ARM
endif()
# GCC looks for memory that it can use again when it holds 128 MB. If it looks at 600 MB, the largest
# room is compiled in a tenth less time, and the compiler holds 1 GB at most.
set(memory $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=600000>)
# A designated initialiser that leaves a field out means its default: no warning for that. Nor for
# what GCC 12 imagines inside AVX-512 intrinsics (GCC bug 105593) and std::string (GCC bug 105651;
# where <string> comes precompiled it says array-bounds and stringop-overflow instead). Nor of a span
# that outlives its tensor, which owns nothing (GCC 14).
target_compile_options(nanofsdp_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${flags};${memory};
  -Wall;-Wextra;-Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:
    -Wno-maybe-uninitialized;-Wno-uninitialized;-Wno-restrict;-Wno-array-bounds;
    -Wno-stringop-overflow;-Wno-dangling-reference>>)
if(NANOFSDP_WERROR)
  target_compile_options(nanofsdp_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(NANOFSDP_SANITIZE)  # assertions stay on, Eigen's among them; higher optimisation compiles for ages
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
  add_compile_options(-fsanitize=${NANOFSDP_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${NANOFSDP_SANITIZE})
endif()
