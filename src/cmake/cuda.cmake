# CUDA and NCCL. NANOFSDP_CUDA: AUTO builds the twins when both are found, ON insists, OFF never.
# Where they lie elsewhere: -DCUDAToolkit_ROOT=..., -DNCCL_ROOT=...
set(NANOFSDP_CUDA AUTO CACHE STRING "Build for GPUs too: AUTO (when CUDA and NCCL are found), ON, OFF")
set(has_cuda OFF)
set(why_no_cuda "NANOFSDP_CUDA is OFF")
if(NANOFSDP_SANITIZE)
  set(why_no_cuda "sanitizers see nothing of a GPU")
elseif(NOT NANOFSDP_CUDA STREQUAL "OFF")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)  # A100, H100 and H200; newer ones compile the last one's PTX
  endif()
  if(NOT DEFINED ENV{CUDAHOSTCXX})
    set(ENV{CUDAHOSTCXX} ${CMAKE_CXX_COMPILER})  # a variable of CMake's would not reach the check
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit 12 QUIET)
  set(toolkit ${CUDAToolkit_BIN_DIR}/..)  # CMake 4 takes LIBRARY_DIR elsewhere where lib is a link
  find_path(NCCL_INCLUDE nccl.h
    HINTS ${NCCL_ROOT} ${CUDAToolkit_INCLUDE_DIRS} ${toolkit} PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
    HINTS ${NCCL_ROOT} ${CUDAToolkit_LIBRARY_DIR} ${toolkit} PATH_SUFFIXES lib)
  if(NOT CMAKE_CUDA_COMPILER)
    set(why_no_cuda "no nvcc that works with ${CMAKE_CXX_COMPILER}")
  elseif(NOT CUDAToolkit_FOUND)
    set(why_no_cuda "no CUDA Toolkit 12 or newer")
  elseif(NOT NCCL_INCLUDE OR NOT NCCL_LIBRARY)
    set(why_no_cuda "no NCCL: name its folder with -DNCCL_ROOT=")
  else()
    set(has_cuda ON)
  endif()
  if(NANOFSDP_CUDA STREQUAL "ON" AND NOT has_cuda)
    message(FATAL_ERROR "nanofsdp: NANOFSDP_CUDA=ON, but ${why_no_cuda}")
  endif()
endif()

if(has_cuda)
  enable_language(CUDA)
  string(APPEND CMAKE_CUDA_FLAGS " -std=c++20")  # CMAKE_CUDA_STANDARD knows no 20 in CMake 3.25
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
  set(cuda_runtime CUDA::cudart_static)
  # Loaded when they are first called (src/base/library.h), so nothing is linked: the compiler gets
  # the headers, the program the names, and where to look if the system does not find them.
  function(loaded_library target macro name file include)
    get_filename_component(folder ${file} DIRECTORY)
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE ${include})
    target_compile_definitions(${target} INTERFACE ${macro}="${name}" ${macro}_FOLDER="${folder}")
  endfunction()
  loaded_library(cublas_lt NANOFSDP_CUBLASLT libcublasLt.so.${CUDAToolkit_VERSION_MAJOR}
    ${CUDA_cublasLt_LIBRARY} ${CUDAToolkit_INCLUDE_DIRS})
  loaded_library(nccl NANOFSDP_NCCL libnccl.so.2 ${NCCL_LIBRARY} ${NCCL_INCLUDE})
  set(cuda_matmul cublas_lt)
  set(cuda_collectives nccl)
  message(STATUS "nanofsdp: with CUDA ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "nanofsdp: without CUDA: ${why_no_cuda}")
endif()
