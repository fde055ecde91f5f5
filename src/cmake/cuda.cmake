# CUDA, cuBLAS and NCCL. NANOFSDP_CUDA: AUTO builds the twins where a GPU is and all three are found,
# ON insists on the three, OFF never builds. Where they lie elsewhere: -DCUDAToolkit_ROOT=...,
# -DCUBLAS_ROOT=..., -DNCCL_ROOT=...
set(NANOFSDP_CUDA AUTO CACHE STRING "Build for GPUs too: AUTO (where a GPU is), ON, OFF")
set(has_cuda OFF)
set(why_no_cuda "NANOFSDP_CUDA is OFF")
if(NANOFSDP_SANITIZE)
  set(why_no_cuda "sanitizers see nothing of a GPU")
elseif(NANOFSDP_CUDA STREQUAL "AUTO" AND NOT EXISTS /dev/nvidiactl AND NOT EXISTS /dev/dxg)
  set(why_no_cuda "no GPU here (make gpu builds for one all the same)")  # /dev/dxg: Windows' Linux
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
  # Python's wheels have both as well, in folders of their own and without the name that ends in .so.
  function(nanofsdp_find_with_header what header)
    find_path(${what}_INCLUDE ${header}
      HINTS ${${what}_ROOT} ${CUDAToolkit_INCLUDE_DIRS} ${toolkit} PATH_SUFFIXES include)
    find_library(${what}_LIBRARY NAMES ${ARGN}
      HINTS ${${what}_ROOT} ${CUDAToolkit_LIBRARY_DIR} ${toolkit} PATH_SUFFIXES lib)
  endfunction()
  set(cublas_file libcublasLt.so.${CUDAToolkit_VERSION_MAJOR})
  nanofsdp_find_with_header(CUBLAS cublasLt.h cublasLt ${cublas_file})
  nanofsdp_find_with_header(NCCL nccl.h nccl libnccl.so.2)
  if(NOT CMAKE_CUDA_COMPILER)
    set(why_no_cuda "no nvcc that works with ${CMAKE_CXX_COMPILER}")
  elseif(NOT CUDAToolkit_FOUND)
    set(why_no_cuda "no CUDA Toolkit 12 or newer")
  elseif(NOT CUBLAS_INCLUDE OR NOT CUBLAS_LIBRARY)
    set(why_no_cuda "no cuBLAS: name its folder with -DCUBLAS_ROOT=")
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
  function(nanofsdp_loaded_library target macro name file include)
    get_filename_component(folder ${file} DIRECTORY)
    add_library(${target} INTERFACE)
    # Their headers include CUDA's, and may lie elsewhere than these.
    target_include_directories(${target} SYSTEM INTERFACE ${include} ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(${target} INTERFACE ${macro}="${name}" ${macro}_FOLDER="${folder}")
  endfunction()
  nanofsdp_loaded_library(nanofsdp_cublas_lt NANOFSDP_CUBLASLT ${cublas_file} ${CUBLAS_LIBRARY}
    ${CUBLAS_INCLUDE})
  nanofsdp_loaded_library(nanofsdp_nccl NANOFSDP_NCCL libnccl.so.2 ${NCCL_LIBRARY} ${NCCL_INCLUDE})
  set(cuda_matmul nanofsdp_cublas_lt)
  set(cuda_collectives nanofsdp_nccl)
  message(${say} "nanofsdp: with CUDA ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(${say} "nanofsdp: without CUDA: ${why_no_cuda}")
endif()
