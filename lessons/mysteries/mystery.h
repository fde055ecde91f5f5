#pragma once

#include <string>
#include <vector>

/// @file
/// @brief A run that has gone wrong, and what may be the cause of it.

namespace lesson::mystery {

/// What may be wrong. The hint says what in the picture speaks against it; of the right cause it
/// says where to look for rank and unit.
struct Cause {
  std::string text, hint;
};

/// One mystery. Answers: the number of a cause, from 1; a rank, or "all"; a unit, or "all".
struct Mystery {
  std::string story;          ///< who did what, and what they expected
  std::string (*symptoms)();  ///< runs the library, and returns what a user would see
  std::vector<Cause> causes;
  int cause;
  std::string rank, unit;
  std::string explanation;  ///< and where somebody met it
};

/// Mysteries 1, 2, ... in this order.
std::vector<Mystery> memory_mysteries();    ///< 1 to 6
std::vector<Mystery> training_mysteries();  ///< 7 to 10
std::vector<Mystery> order_mysteries();     ///< 11 and 12

/// All of them.
std::vector<Mystery> all();

/// What is said to an answer, and whether it is right.
struct Reply {
  bool right;
  std::string text;
};
/// @param answer "CAUSE RANK UNIT"
Reply reply(const Mystery& mystery, const std::string& answer);

}  // namespace lesson::mystery
