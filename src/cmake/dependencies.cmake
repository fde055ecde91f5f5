# The libraries, each from the first place that has it: the system; build/deps, into which `make`
# unpacks Debian packages for users without root; the pinned source below, built with ours.
include(FetchContent)
if(POLICY CMP0135)
  cmake_policy(SET CMP0135 NEW)  # an unpacked file is as old as its unpacking
endif()
find_package(Threads REQUIRED)

set(deps ${PROJECT_SOURCE_DIR}/build/deps)
list(APPEND CMAKE_PREFIX_PATH ${deps}/usr)
set(libraries "")  # every library asked for
set(missing "")    # those not found so far

# nanofsdp_library(NAME TARGET target DEBIAN package URL archive SHA256 hash [HEADERS directory])
# HEADERS: all it takes is an include path, so its own build stays unread.
macro(nanofsdp_library name)
  cmake_parse_arguments(${name} "" "TARGET;DEBIAN;URL;SHA256;HEADERS" "" ${ARGN})
  list(APPEND libraries ${name})
endmacro()

nanofsdp_library(Eigen3 TARGET Eigen3::Eigen DEBIAN libeigen3-dev HEADERS .
  URL https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
  SHA256 8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72)
nanofsdp_library(nlohmann_json TARGET nlohmann_json::nlohmann_json DEBIAN nlohmann-json3-dev
  HEADERS include URL https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
  SHA256 8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f)
nanofsdp_library(fmt TARGET fmt::fmt DEBIAN libfmt-dev
  URL https://github.com/fmtlib/fmt/archive/9.1.0.tar.gz
  SHA256 5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
set(NANOFSDP_GLOO AUTO CACHE STRING
  "Ranks that are processes, over Gloo: AUTO (on Linux, elsewhere if it is found), ON, OFF")
if(NANOFSDP_GLOO)
  nanofsdp_library(Gloo TARGET nanofsdp_gloo DEBIAN libgloo-dev
    URL https://github.com/facebookincubator/gloo/archive/5354032ea08eadd7fc4456477f7f7c6308818509.tar.gz
    SHA256 5759a06e6c8863c58e8ceadeb56f7c701fec89b2559ba33a103a447207bf69c7)
endif()
if(NANOFSDP_TESTS AND PROJECT_IS_TOP_LEVEL)
  nanofsdp_library(GTest TARGET GTest::gtest DEBIAN libgtest-dev
    URL https://github.com/google/googletest/archive/release-1.12.1.tar.gz
    SHA256 81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2)
endif()

# Gloo's own package calls its target `gloo`. In a project around this one that may be anything.
macro(nanofsdp_find_gloo)
  if(NOT CMAKE_DISABLE_FIND_PACKAGE_Gloo)
    find_path(NANOFSDP_GLOO_INCLUDE gloo/context.h)
    find_library(NANOFSDP_GLOO_LIBRARY gloo)
    mark_as_advanced(NANOFSDP_GLOO_INCLUDE NANOFSDP_GLOO_LIBRARY)
  endif()
  if(NANOFSDP_GLOO_INCLUDE AND NANOFSDP_GLOO_LIBRARY)
    add_library(nanofsdp_gloo UNKNOWN IMPORTED)
    set_target_properties(nanofsdp_gloo PROPERTIES IMPORTED_LOCATION ${NANOFSDP_GLOO_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${NANOFSDP_GLOO_INCLUDE})
  endif()
endmacro()

# A project around this one may have some of them already.
macro(nanofsdp_find_libraries)
  set(missing "")
  set(packages "")
  foreach(name IN LISTS libraries)
    if(NOT NANOFSDP_PINNED AND NOT TARGET ${${name}_TARGET})
      if(name STREQUAL "Gloo")
        nanofsdp_find_gloo()
      else()
        find_package(${name} CONFIG QUIET)
      endif()
    endif()
    if(NOT TARGET ${${name}_TARGET})
      list(APPEND missing ${name})
      list(APPEND packages ${${name}_DEBIAN})
    endif()
  endforeach()
endmacro()

nanofsdp_find_libraries()
if(missing AND NANOFSDP_INSTALL AND NOT NANOFSDP_PINNED)
  execute_process(COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/install_dependencies.sh ${deps} ${packages})
  nanofsdp_find_libraries()
endif()
if(NANOFSDP_GLOO STREQUAL "AUTO" AND NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  list(REMOVE_ITEM missing Gloo)
endif()

# Unpacked shared libraries need each other at run time: an rpath that reaches them too, which the
# newer RUNPATH does not.
if(EXISTS ${deps}/usr)
  foreach(prefix ${deps}/usr/lib ${deps}/lib)
    list(APPEND CMAKE_BUILD_RPATH ${prefix} ${prefix}/${CMAKE_LIBRARY_ARCHITECTURE})
  endforeach()
  add_link_options(-Wl,--disable-new-dtags)
endif()

if(missing)
  list(JOIN packages " " packages)
  message(NOTICE "nanofsdp: to be downloaded and built, as this system lacks them: ${missing}.\n"
    "          On Debian/Ubuntu quicker: sudo apt-get install ${packages}")
  set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
  set(GLOO_INSTALL OFF CACHE BOOL "")  # it would ignore the prefix; our library takes its objects
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # CMake 4 refuses Gloo's minimum otherwise
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    set(USE_LIBUV ON CACHE BOOL "")  # Gloo's own TCP is for Linux alone
  endif()
endif()
# nanofsdp_fetch(NAME): sets `place` to its archive, which is here then. FetchContent by itself would
# try for minutes, and say what is wrong above many lines of its own.
function(nanofsdp_fetch name)
  get_filename_component(file ${${name}_URL} NAME)
  set(archive ${PROJECT_BINARY_DIR}/archives/${name}-${file})
  set(place ${archive} PARENT_SCOPE)
  set(status 0 "what is there is another file")
  if(NOT EXISTS ${archive})
    file(DOWNLOAD ${${name}_URL} ${archive} STATUS status INACTIVITY_TIMEOUT 30)
  endif()
  set(hash "")
  if(EXISTS ${archive})
    file(SHA256 ${archive} hash)
  endif()
  if(NOT hash STREQUAL ${name}_SHA256)
    list(GET status 1 reason)
    string(TOUPPER ${name} upper)
    string(CONCAT complaint "nanofsdp: ${name} is missing, and did not arrive from ${${name}_URL} "
      "(${reason}). On Debian/Ubuntu: sudo apt-get install ${packages}; elsewhere unpack that file and "
      "say make CMAKE_FLAGS=-DFETCHCONTENT_SOURCE_DIR_${upper}=/where/it/is")
    string(REPLACE "\"" "" complaint "${complaint}")
    file(REMOVE ${archive})
    file(WRITE ${PROJECT_BINARY_DIR}/complaint "${complaint}\n")  # configure.sh shows it at the end
    message(FATAL_ERROR "${complaint}")
  endif()
endfunction()
foreach(name IN LISTS missing)
  string(TOUPPER ${name} upper)
  set(place ${${name}_URL})
  if(PROJECT_IS_TOP_LEVEL AND NOT FETCHCONTENT_SOURCE_DIR_${upper})
    nanofsdp_fetch(${name})
  endif()
  set(place URL ${place} URL_HASH SHA256=${${name}_SHA256})
  if(${name}_HEADERS)
    FetchContent_Declare(${name} ${place} SOURCE_SUBDIR none)
    FetchContent_MakeAvailable(${name})
    string(TOLOWER ${name} lower)
    add_library(${${name}_TARGET} INTERFACE IMPORTED)
    target_include_directories(${${name}_TARGET} INTERFACE
      ${${lower}_SOURCE_DIR}/${${name}_HEADERS})
  else()
    FetchContent_Declare(${name} ${place})
    FetchContent_MakeAvailable(${name})
  endif()
endforeach()
if(Gloo IN_LIST missing)  # its target does not say where its headers are, nor they where uint8_t is
  target_include_directories(gloo INTERFACE
    $<BUILD_INTERFACE:${gloo_SOURCE_DIR}> $<BUILD_INTERFACE:${gloo_BINARY_DIR}>)
  target_compile_options(gloo PUBLIC -include cstdint)
  add_library(nanofsdp_gloo ALIAS gloo)
  include(CheckCXXSymbolExists)
  check_cxx_symbol_exists(__GLIBC__ cstdint has_glibc)
  if(NOT has_glibc)
    target_compile_definitions(gloo PRIVATE "__caddr_t=char*")  # musl has no such type
  endif()
endif()

set(has_gloo OFF)
set(gloo "")
if(TARGET nanofsdp_gloo)
  set(has_gloo ON)
  set(gloo nanofsdp_gloo)
elseif(NANOFSDP_TESTS AND PROJECT_IS_TOP_LEVEL)
  message(FATAL_ERROR "nanofsdp: the tests need Gloo: expected NANOFSDP_GLOO=ON, got "
    "${NANOFSDP_GLOO}")
else()
  message(${say} "nanofsdp: without Gloo: ranks on CPUs are threads of one process")
endif()

# Warnings are for our own code: whatever the libraries' headers say stays out of sight.
string(TOLOWER "${missing}" pinned)  # those targets that are built from pinned sources
foreach(target IN LISTS pinned ITEMS gtest_main)
  if(TARGET ${target})
    get_target_property(headers ${target} INTERFACE_INCLUDE_DIRECTORIES)
    set_target_properties(${target} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${headers}")
  endif()
endforeach()
