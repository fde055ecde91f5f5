# For zig.sh: libraries of this system, as headers alone.
foreach(library IN ITEMS Eigen3::Eigen nlohmann_json::nlohmann_json fmt::fmt)
  add_library(${library} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${library} SYSTEM INTERFACE ${NANOFSDP_HEADERS})
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
