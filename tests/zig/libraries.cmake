# For zig.sh: what nanofsdp would look for.
# Libraries of this system, as headers alone.
if(NANOFSDP_HEADERS)
  foreach(library IN ITEMS Eigen3::Eigen nlohmann_json::nlohmann_json fmt::fmt)
    add_library(${library} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${library} SYSTEM INTERFACE ${NANOFSDP_HEADERS})
  endforeach()
  target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
endif()

# What Gloo's connections are made of where it has no TCP of its own. Gloo takes this target.
if(NANOFSDP_LIBUV)
  enable_language(C)
  set(LIBUV_BUILD_SHARED OFF CACHE BOOL "")
  set(BUILD_TESTING OFF CACHE BOOL "")
  add_subdirectory(${NANOFSDP_LIBUV} libuv EXCLUDE_FROM_ALL)
  set(USE_LIBUV ON CACHE BOOL "")
endif()
