# nanofsdp_embed_text(TARGET <library> FILE <path> SYMBOL <kName>)
#
# Compiles the bytes of a small text file (up to some 100 KB) into <library>, as the definition of
#
#   namespace nanofsdp { extern const std::string_view <kName>; }     (declared in an embedded.h)
#
# The .cpp is generated in the build tree, again whenever the file changes. Paths are relative to the
# directory of the caller. As a script (cmake -P) this same file does the generating.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${FILE}" hex HEX)
  # Character by character: no quoting to go wrong, no limit on the length of a string literal.
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "(0a',)" "\\1\n" bytes "${bytes}")
  get_filename_component(name "${FILE}" NAME)
  file(WRITE "${OUTPUT}" "// Generated from ${name} by embed.cmake.
#include <string_view>

namespace nanofsdp {
namespace {
constexpr char bytes[] = {
${bytes}'\\0'};
}  // namespace
extern const std::string_view ${SYMBOL};
constinit const std::string_view ${SYMBOL}{bytes, sizeof bytes - 1};
}  // namespace nanofsdp
")
  return()
endif()

function(nanofsdp_embed_text)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "TARGET;FILE;SYMBOL" "")
  get_filename_component(file "${ARG_FILE}" ABSOLUTE)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/embedded/${ARG_SYMBOL}.cpp")
  set(script "${CMAKE_CURRENT_FUNCTION_LIST_FILE}")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-DFILE=${file}" "-DOUTPUT=${output}" -DSYMBOL=${ARG_SYMBOL}
            -P "${script}"
    DEPENDS "${file}" "${script}"
    COMMENT "Embedding ${ARG_FILE} as ${ARG_SYMBOL}"
    VERBATIM)
  set_source_files_properties("${output}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
    SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${ARG_TARGET} PRIVATE "${output}")
endfunction()
