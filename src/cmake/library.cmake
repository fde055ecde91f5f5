# nanofsdp::nanofsdp, the library: one archive of the rooms that a program needs which shards a model
# of its own. It is the same target by find_package(nanofsdp), add_subdirectory() and FetchContent.
set(library_rooms base ops launch comm nn gpt fsdp data store)

# Headers of no use to others: they would need our flags, or the headers of other libraries.
set(private_headers "/(cuda|json|register|library|embedded|operands|exp|gemm|micro_kernel|\
gloo_wire|nccl_wire|nccl_library)\\.h$")
set(headers nanofsdp.h)
set(objects "")
foreach(name IN LISTS library_rooms)
  file(GLOB of_room CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src
    ${PROJECT_SOURCE_DIR}/src/${name}/*.h)
  list(APPEND headers ${of_room})
  list(APPEND objects $<TARGET_OBJECTS:nanofsdp_${name}>)
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
add_custom_target(nanofsdp_headers DEPENDS ${stamp})
set(build_include ${PROJECT_BINARY_DIR}/include)
if(PROJECT_IS_TOP_LEVEL)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/sources)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/sources/nanofsdp SYMBOLIC)
  set(build_include ${PROJECT_BINARY_DIR}/sources ${PROJECT_SOURCE_DIR}/src)
endif()

add_library(nanofsdp_library STATIC ${objects})
add_library(nanofsdp::nanofsdp ALIAS nanofsdp_library)
add_dependencies(nanofsdp_library nanofsdp_headers)
set_target_properties(nanofsdp_library PROPERTIES
  OUTPUT_NAME nanofsdp EXPORT_NAME nanofsdp LINKER_LANGUAGE CXX)
target_compile_features(nanofsdp_library INTERFACE cxx_std_20)
target_include_directories(nanofsdp_library SYSTEM INTERFACE "$<BUILD_INTERFACE:${build_include}>")
# A static library's program links what the library itself needs, but need not know its headers.
target_link_libraries(nanofsdp_library PRIVATE Threads::Threads ${CMAKE_DL_LIBS} ${cuda_runtime})
target_link_options(nanofsdp_library INTERFACE ${take_processor_check})
if(NOT PROJECT_IS_TOP_LEVEL)
  target_link_libraries(nanofsdp_library PRIVATE fmt::fmt ${gloo})
  return()  # to install it is up to the project around this one
endif()
# Where we are installed, others may lack what was built from pinned sources. And what they find under
# the name of fmt or gloo may be another version, or another library: so we link files.
set(linked "")
foreach(target IN ITEMS fmt::fmt ${gloo})
  string(REGEX REPLACE ".*[:_]" "" name ${target})
  if(name IN_LIST pinned)
    target_sources(nanofsdp_library PRIVATE $<TARGET_OBJECTS:${name}>)
    continue()
  endif()
  get_target_property(file ${target} LOCATION)
  if(file)  # else it is headers alone
    file(REAL_PATH ${file} file)
    list(APPEND linked ${file})
    target_link_libraries(nanofsdp_library PRIVATE $<INSTALL_INTERFACE:${file}>)
  endif()
  target_link_libraries(nanofsdp_library PRIVATE $<BUILD_INTERFACE:${target}>)
endforeach()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
target_include_directories(nanofsdp_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# No header stays that an older version had.
install(CODE "file(REMOVE_RECURSE
  \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/nanofsdp\")")
install(TARGETS nanofsdp_library EXPORT nanofsdp ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
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

# A directory outside the prefix is named by its whole path, and then the prefix is, too.
set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  set(pc_prefix \${pcfiledir}/${to_prefix})
endif()
foreach(kind IN ITEMS LIB INCLUDE)
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_${kind}DIR BASE_DIRECTORY \${prefix} OUTPUT_VARIABLE pc_${kind})
endforeach()
list(JOIN linked " " libs)
string(APPEND libs " ${take_processor_check}")
if(has_cuda)
  string(APPEND libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
configure_file(src/cmake/nanofsdp.pc.in ${PROJECT_BINARY_DIR}/nanofsdp.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/nanofsdp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
