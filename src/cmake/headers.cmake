# cmake -DSOURCE=src -DOUTPUT=include/nanofsdp "-DHEADERS=nanofsdp.h;base/check.h;..." -P headers.cmake
#
# Our headers, for programs of others: `#include "base/check.h"` becomes
# `#include "nanofsdp/base/check.h"`, so that no folder called `base` or `data` is on their include
# path. What has not changed is not written; what is no header any more is removed.
file(GLOB_RECURSE there RELATIVE ${OUTPUT} ${OUTPUT}/*)
foreach(header IN LISTS HEADERS)
  list(REMOVE_ITEM there ${header})
  file(READ ${SOURCE}/${header} text)
  string(REGEX REPLACE "#include \"([a-z]+/)" "#include \"nanofsdp/\\1" text "${text}")
  set(before "")
  if(EXISTS ${OUTPUT}/${header})
    file(READ ${OUTPUT}/${header} before)
  endif()
  if(NOT text STREQUAL before)
    file(WRITE ${OUTPUT}/${header} "${text}")
  endif()
endforeach()
foreach(header IN LISTS there)
  file(REMOVE ${OUTPUT}/${header})
endforeach()
