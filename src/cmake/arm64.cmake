# Linux on arm64, built elsewhere by Debian's cross compiler: make test-arm64. NANOFSDP_ARM64_ROOT is a
# folder with that system's libraries and headers (tests/arm64/root.sh). What is built runs emulated.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT ${NANOFSDP_ARM64_ROOT})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${NANOFSDP_ARM64_ROOT})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES NANOFSDP_ARM64_ROOT)
# Libraries are that system's, programs this one's.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
