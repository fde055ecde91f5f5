#pragma once

#include <string_view>
#include <vector>

#include "11_zero_3_units/referee.h"

/// @file
/// @brief Plausible mistakes in the four hooks of lesson 11, and what the checker says about each.

namespace lesson::wrong {

/// The right hooks. Each mistake replaces some of them.
inline constexpr FourHooks kRight{.pre_forward = [](HookedUnit& unit) { unit.gather(); },
                                  .post_forward =
                                      [](HookedUnit& unit) {
                                        if (!unit.is_root() || !unit.is_training()) unit.discard();
                                        if (unit.is_training()) ++unit.calls;
                                      },
                                  .pre_backward =
                                      [](HookedUnit& unit) {
                                        if (!unit.is_root()) unit.gather();
                                        if (!unit.has_gradient()) unit.borrow(), unit.zero();
                                      },
                                  .post_backward =
                                      [](HookedUnit& unit) {
                                        unit.discard();
                                        if (--unit.calls == 0) unit.reduce();
                                      }};

struct Mistake {
  std::string_view name;
  void (*make)(FourHooks&);
  std::string_view where, yours, right;  ///< the words with which each begins
};

inline const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"DoesNotGather", [](FourHooks& h) { h.pre_forward = [](HookedUnit&) {}; },
       "pass 1 (training, calls h.0 h.1 h.2), pre_forward of root", "nothing", "U.root"},
      {"KeepsTheBlocksAfterForward",
       [](FourHooks& h) {
         h.post_forward = [](HookedUnit& unit) {
           if (!unit.is_training()) unit.discard();
           if (unit.is_training()) ++unit.calls;
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), post_forward of h.0", "nothing", "R.h.0"},
      {"DiscardsTheRootAfterForward",
       [](FourHooks& h) {
         h.post_forward = [](HookedUnit& unit) {
           unit.discard();
           if (unit.is_training()) ++unit.calls;
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), post_forward of root", "R.root", "nothing"},
      {"GathersTheRootTwice",
       [](FourHooks& h) {
         h.pre_backward = [](HookedUnit& unit) {
           unit.gather();
           if (!unit.has_gradient()) unit.borrow(), unit.zero();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), pre_backward of root",
       "U.root, then it stops: gather(): the parameters are gathered already", "nothing"},
      {"RemembersWhereForwardFoundThem",
       [](FourHooks& h) {
         h.pre_backward = [](HookedUnit& unit) {
           if (!unit.has_gradient()) unit.borrow(), unit.zero();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), pre_backward of h.2", "nothing", "U.h.2"},
      {"KeepsTheUnitsAfterBackward",
       [](FourHooks& h) {
         h.post_backward = [](HookedUnit& unit) {
           if (--unit.calls == 0) unit.reduce();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), post_backward of h.2", "RS.h.2", "R.h.2 RS.h.2"},
      {"ReducesBeforeItDiscards",
       [](FourHooks& h) {
         h.post_backward = [](HookedUnit& unit) {
           if (--unit.calls == 0) unit.reduce();
           unit.discard();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), post_backward of h.2", "RS.h.2 R.h.2",
       "R.h.2 RS.h.2"},
      {"ReducesTheRootOnly",
       [](FourHooks& h) {
         h.post_backward = [](HookedUnit& unit) {
           unit.discard();
           if (unit.is_root()) unit.reduce();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), post_backward of h.2", "R.h.2", "R.h.2 RS.h.2"},
      {"BorrowsNoGradient",
       [](FourHooks& h) {
         h.pre_backward = [](HookedUnit& unit) {
           if (!unit.is_root()) unit.gather();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), post_backward of h.2",
       "R.h.2 RS.h.2, then it stops: reduce(): the unit has no gradient", "R.h.2 RS.h.2"},
      {"BorrowsInForward",
       [](FourHooks& h) {
         h.pre_forward = [](HookedUnit& unit) {
           unit.gather();
           if (unit.is_training() && !unit.has_gradient()) unit.borrow(), unit.zero();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), after it", "bytes borrowed at most: 960",
       "bytes borrowed at most: 720"},
      {"DoesNotZero",
       [](FourHooks& h) {
         h.pre_backward = [](HookedUnit& unit) {
           if (!unit.is_root()) unit.gather();
           if (!unit.has_gradient()) unit.borrow();
         };
       },
       "pass 1 (training, calls h.0 h.1 h.2), after it", "gradient norm: NaN", "gradient norm: "},
      {"NeverCountsDown",
       [](FourHooks& h) {
         h.post_backward = [](HookedUnit& unit) {
           unit.discard();
           if (unit.calls == 1) unit.reduce();
         };
       },
       "pass 2 (training, calls h.0 h.2), post_backward of h.2", "R.h.2", "R.h.2 RS.h.2"},
      {"KeepsTheRootAfterAnEvaluation",
       [](FourHooks& h) {
         h.post_forward = [](HookedUnit& unit) {
           if (!unit.is_root()) unit.discard();
           if (unit.is_training()) ++unit.calls;
         };
       },
       "pass 3 (an evaluation, calls h.0 h.1 h.2), post_forward of root", "nothing", "R.root"},
      {"CountsTheCallsOfAnEvaluation",
       [](FourHooks& h) {
         h.post_forward = [](HookedUnit& unit) {
           if (!unit.is_root() || !unit.is_training()) unit.discard();
           ++unit.calls;
         };
       },
       "pass 4 (training, calls h.0 h.1 h.0), post_backward of h.1", "R.h.1", "R.h.1 RS.h.1"},
      {"BorrowsInEachCall",
       [](FourHooks& h) {
         h.pre_backward = [](HookedUnit& unit) {
           if (!unit.is_root()) unit.gather();
           unit.borrow(), unit.zero();
         };
       },
       "pass 4 (training, calls h.0 h.1 h.0), pre_backward of h.0",
       "U.h.0, then it stops: borrow(): the unit has a gradient, which would be lost", "U.h.0"},
      {"ZeroesInEachCall",
       [](FourHooks& h) {
         h.pre_backward = [](HookedUnit& unit) {
           if (!unit.is_root()) unit.gather();
           if (!unit.has_gradient()) unit.borrow();
           unit.zero();
         };
       },
       "pass 4 (training, calls h.0 h.1 h.0), after it", "gradient norm: ", "gradient norm: "},
      {"ReducesBeforeTheLastCall",
       [](FourHooks& h) {
         h.post_backward = [](HookedUnit& unit) {
           unit.discard();
           unit.reduce();
         };
       },
       "pass 4 (training, calls h.0 h.1 h.0), post_backward of h.0", "R.h.0 RS.h.0", "R.h.0"},
  };
  return all;
}

}  // namespace lesson::wrong
