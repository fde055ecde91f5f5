#include "pieces.h"

// Each function exists twice in this program, under symbols that CMake's wrappers give it:
// solution_NAME, and yours_NAME, which is null if lessons.sh has left the reader's file out.
#define NANOFSDP_PIECE(number, function, place)                                   \
  extern decltype(::function) solution_##function __asm__("solution_" #function); \
  extern decltype(::function) yours_##function __asm__("yours_" #function) __attribute__((weak));
#include "pieces.inc"
#undef NANOFSDP_PIECE

namespace lesson::mine {

const std::vector<PieceInfo>& piece_infos() {
  static const std::vector<PieceInfo> all = {
#define NANOFSDP_PIECE(number, function, place) {number, #function, place},
#include "pieces.inc"
#undef NANOFSDP_PIECE
  };
  return all;
}

Pieces solutions() {
  return {
#define NANOFSDP_PIECE(number, function, place) .function = &solution_##function,
#include "pieces.inc"
#undef NANOFSDP_PIECE
  };
}

std::vector<std::string_view> use_yours(Pieces& pieces,
                                        const std::vector<std::string_view>& numbers) {
  std::vector<std::string_view> missing;
  for (const std::string_view wanted : numbers) {
#define NANOFSDP_PIECE(number, function, place) \
  if (wanted == number) {                       \
    if (&yours_##function == nullptr) {         \
      missing.push_back(wanted);                \
    } else {                                    \
      pieces.function = &yours_##function;      \
    }                                           \
  }
#include "pieces.inc"
#undef NANOFSDP_PIECE
  }
  return missing;
}

}  // namespace lesson::mine
