# nanofsdp::nanofsdp, the library: one archive of the rooms that a program needs which shards a model
# of its own. It is the same target by find_package(nanofsdp), add_subdirectory() and FetchContent.
set(library_rooms base ops launch comm nn gpt fsdp data store)

# Headers of no use to others: they would need our flags, or the headers of other libraries.
set(private_headers "/(cuda|register|library|embedded|operands|exp|gemm|micro_kernel|\
adamw_constants|gloo_wire|nccl_wire|nccl_library)\\.h$")
set(headers nanofsdp.h)
set(objects "")
foreach(name IN LISTS library_rooms)
  file(GLOB of_room CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/src/${name}/*.h)
  list(APPEND headers ${of_room})
  list(APPEND objects $<TARGET_OBJECTS:nf_${name}>)
endforeach()
list(FILTER headers EXCLUDE REGEX "${private_headers}")

# <nanofsdp/base/check.h>. Others get copies (headers.cmake); our own programs see the sources by
# this name too, so that they may also include "base/check.h".
set(script ${PROJECT_SOURCE_DIR}/src/cmake/headers.cmake)
set(stamp ${PROJECT_BINARY_DIR}/include/headers.stamp)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/src/ OUTPUT_VARIABLE originals)
add_custom_command(OUTPUT ${stamp} DEPENDS ${originals} ${script}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/src
    -DOUTPUT=${PROJECT_BINARY_DIR}/include/nanofsdp "-DHEADERS=${headers}" -P ${script}
  COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
  COMMENT "Copying the headers of the library" VERBATIM)
add_custom_target(nf_headers DEPENDS ${stamp})
set(build_include ${PROJECT_BINARY_DIR}/include)
if(PROJECT_IS_TOP_LEVEL)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/sources)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/sources/nanofsdp SYMBOLIC)
  set(build_include ${PROJECT_BINARY_DIR}/sources ${PROJECT_SOURCE_DIR}/src)
endif()

add_library(nf_library STATIC ${objects})
add_library(nanofsdp::nanofsdp ALIAS nf_library)
add_dependencies(nf_library nf_headers)
set_target_properties(nf_library PROPERTIES
  OUTPUT_NAME nanofsdp EXPORT_NAME nanofsdp LINKER_LANGUAGE CXX)
target_compile_features(nf_library INTERFACE cxx_std_20)
target_include_directories(nf_library INTERFACE "$<BUILD_INTERFACE:${build_include}>")
# A static library's program links what the library itself needs, but need not know its headers.
target_link_libraries(nf_library PRIVATE Threads::Threads ${CMAKE_DL_LIBS} ${cuda_runtime})
set(linked fmt::fmt ${gloo})
if(PROJECT_IS_TOP_LEVEL)
  # Where we are installed, others may lack what was built from pinned sources.
  foreach(target IN ITEMS fmt gloo)
    if(target IN_LIST pinned)
      target_sources(nf_library PRIVATE $<TARGET_OBJECTS:${target}>)
      list(FILTER linked EXCLUDE REGEX "^${target}")
    endif()
  endforeach()
endif()
target_link_libraries(nf_library PRIVATE ${linked})
if(NOT PROJECT_IS_TOP_LEVEL)
  return()  # to install it is up to the project around this one
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
target_include_directories(nf_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS nf_library EXPORT nanofsdp ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/include/nanofsdp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/nanofsdp)
set(built_with "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, -march=${NANOFSDP_ARCH}")
string(APPEND built_with "; Gloo ${has_gloo}, CUDA ${has_cuda}")
configure_package_config_file(src/cmake/nanofsdpConfig.cmake.in
  ${PROJECT_BINARY_DIR}/nanofsdpConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nanofsdpConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT nanofsdp NAMESPACE nanofsdp:: FILE nanofsdpTargets.cmake DESTINATION ${package})
install(FILES ${PROJECT_BINARY_DIR}/nanofsdpConfig.cmake
  ${PROJECT_BINARY_DIR}/nanofsdpConfigVersion.cmake DESTINATION ${package})

file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(requires "")
set(libs "")
if("fmt::fmt" IN_LIST linked)
  set(requires fmt)
endif()
if("gloo" IN_LIST linked)
  string(APPEND libs " -lgloo")
endif()
if(has_cuda)
  string(APPEND libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
configure_file(src/cmake/nanofsdp.pc.in ${PROJECT_BINARY_DIR}/nanofsdp.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/nanofsdp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
