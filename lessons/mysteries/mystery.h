#pragma once

#include <string>
#include <vector>

/// @file
/// @brief A run that has gone wrong, and its possible causes.

namespace lesson::mystery {

/// A possible cause. The hint says which part of the symptoms speaks against it. The hint of the
/// right cause says where to look for rank and unit.
struct Cause {
  std::string text, hint;
};

/// One mystery. An answer has the number of a cause, from 1; a rank, or "all"; and a unit, or
/// "all".
struct Mystery {
  std::string story;          ///< the actions and the expectation of the user
  std::string (*symptoms)();  ///< runs the library, and returns what a user would see
  std::vector<Cause> causes;
  int cause;
  std::string rank, unit;
  std::string explanation;  ///< also says where the error has occurred in practice
};

/// The mysteries 1, 2, ... in this order.
std::vector<Mystery> memory_mysteries();    ///< 1 to 6
std::vector<Mystery> training_mysteries();  ///< 7 to 10
std::vector<Mystery> order_mysteries();     ///< 11 and 12
std::vector<Mystery> count_mysteries();     ///< 13 to 15

/// All mysteries.
std::vector<Mystery> all();

/// The reply to an answer, and whether the answer is right.
struct Reply {
  bool right;
  std::string text;
};
/// @param answer "CAUSE RANK UNIT"
Reply reply(const Mystery& mystery, const std::string& answer);

}  // namespace lesson::mystery
