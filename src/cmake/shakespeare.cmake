# cmake -DOUTPUT=file -P shakespeare.cmake: the text that nanoGPT's README trains on, from its public
# address or from $NANOFSDP_SHAKESPEARE. What fails to arrive whole leaves nothing behind.
set(url https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt)
set(sha256 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed)  # 1,115,394 bytes
set(arriving ${CMAKE_CURRENT_LIST_DIR}/../../build/shakespeare.arriving)
get_filename_component(directory ${OUTPUT} DIRECTORY)

if(EXISTS ${OUTPUT})
  file(SHA256 ${OUTPUT} found)
  if(found STREQUAL sha256)
    message(NOTICE "${OUTPUT} is there already, SHA-256 as expected")
    return()
  endif()
endif()

set(source "$ENV{NANOFSDP_SHAKESPEARE}")
file(MAKE_DIRECTORY ${CMAKE_CURRENT_LIST_DIR}/../../build)
if(source)
  file(COPY_FILE "${source}" ${arriving} RESULT problem)
else()
  set(source ${url})
  message(NOTICE "fetching ${url}")
  file(DOWNLOAD ${url} ${arriving} STATUS status INACTIVITY_TIMEOUT 60)
  list(POP_FRONT status problem reason)
endif()

set(found "nothing")
if(EXISTS ${arriving})
  file(SHA256 ${arriving} found)
endif()
if(found STREQUAL sha256)
  file(MAKE_DIRECTORY ${directory})
  file(RENAME ${arriving} ${OUTPUT})
  message(NOTICE "${OUTPUT}: 1,115,394 bytes, SHA-256 as expected")
else()
  file(REMOVE ${arriving})
  message(FATAL_ERROR "tiny Shakespeare did not arrive from ${source} (${problem} ${reason}): "
    "expected SHA-256 ${sha256}, got ${found}. Try again, or fetch the file by other means and say: "
    "make shakespeare NANOFSDP_SHAKESPEARE=/path/to/it")
endif()
