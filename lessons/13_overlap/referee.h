#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "frame/lanes.h"
#include "overlap_exercise.h"

namespace lesson {

/// @file
/// @brief Runs the reader's program of a step by the rules of overlap_exercise.h, and measures it.

/// The result of a program. After a mistake the rest of the program is not run.
struct Played {
  std::string mistake{};  ///< empty: there was none
  int exposed = 0, total = 0, most_slots = 0;
  Chart chart{.lanes = {"compute", "all-gather", "reduce-scatter"}};
};

/// The milliseconds that the library's program exposes. Without a second slot, computation waits
/// for all gathers; with one, for the first gather of forward and the first of backward. Both times
/// it waits for the last reduce-scatter.
inline int par(int units, int slots) { return kLink * (slots == 1 ? 2 * units + 1 : 3); }

/// A program without a mistake that exposes no more than `exposed`.
struct Score {
  std::string mistake;
  int exposed;
  std::string_view at_most = "";  ///< these words, before a number that may be beaten

  friend bool operator==(const Score& yours, const Score& par) {
    return yours.mistake.empty() && yours.exposed <= par.exposed;
  }
  friend std::string to_string(const Score& score) {
    return score.mistake.empty() ? fmt::format("{}{} ms exposed", score.at_most, score.exposed)
                                 : score.mistake;
  }
};

class Player {
 public:
  Player(int units, int slots) : units_(units), of_slot_(static_cast<std::size_t>(slots), -1) {
    for (int s = 0; s < slots; ++s) played_.chart.lanes.push_back(fmt::format("slot {}", s + 1));
    since_.resize(of_slot_.size());
    arrived_.resize(static_cast<std::size_t>(units));
  }

  Played play(const std::vector<Line>& program) {
    for (const Line& line : program) {
      if (line.unit < 0 || line.unit >= units_) {
        played_.mistake = fmt::format("there is no unit {}", line.unit);
      } else {
        run(line.what, line.unit);
      }
      if (!played_.mistake.empty()) return end();
    }
    if (forwards_ < units_ || backwards_ < units_) {
      played_.mistake = fmt::format("only {} forwards and {} backwards", forwards_, backwards_);
    } else if (std::ranges::count(of_slot_, -1) < std::ssize(of_slot_)) {
      played_.mistake = "a slot is still in use at the end";
    } else if (std::ssize(reduced_) < units_) {
      played_.mistake = fmt::format("only {} reduces", reduced_.size());
    }
    wait(free_[1]);
    return end();
  }

 private:
  void run(Line::What what, int unit) {
    const auto slot = std::ranges::find(of_slot_, unit);
    const bool gathered = slot != of_slot_.end();
    if (what == Line::gather) {
      const auto empty = std::ranges::find(of_slot_, -1);
      if (gathered) return wrong("gather", unit, "it is gathered already");
      if (empty == of_slot_.end()) return wrong("gather", unit, "no slot is free");
      *empty = unit;
      since_[static_cast<std::size_t>(empty - of_slot_.begin())] = now_;
      const auto in_use = std::ssize(of_slot_) - std::ranges::count(of_slot_, -1);
      played_.most_slots = std::max(played_.most_slots, static_cast<int>(in_use));
      arrived_[static_cast<std::size_t>(unit)] = issue(0, unit);
    } else if (what == Line::reduce) {
      if (units_ - backwards_ > unit) return wrong("reduce", unit, "its backward has not run");
      if (std::ranges::count(reduced_, unit) > 0) return wrong("reduce", unit, "that was done");
      reduced_.push_back(unit);
      issue(1, unit);
    } else if (!gathered) {
      wrong(what == Line::discard ? "discard" : "compute", unit, "it is in no slot");
    } else if (what == Line::discard) {
      if (arrived_[static_cast<std::size_t>(unit)] > now_) {
        return wrong("discard", unit, "its gather is still writing");
      }
      empty(static_cast<std::size_t>(slot - of_slot_.begin()));
    } else {
      int& passed = what == Line::forward ? forwards_ : backwards_;
      const int next = what == Line::forward ? passed : units_ - 1 - passed;
      const char* const name = what == Line::forward ? "forward" : "backward";
      if (what == Line::backward && forwards_ < units_) {
        return wrong(name, unit, "forward is not over");
      }
      if (passed == units_) return wrong(name, unit, "all units have run");
      if (unit != next) return wrong(name, unit, fmt::format("the next is unit {}", next));
      ++passed;
      wait(arrived_[static_cast<std::size_t>(unit)]);
      if (passed == 1) played_.chart.marks.push_back({now_, name});
      const int takes = what == Line::forward ? kForward : kBackward;
      bar(0, now_, now_ + takes, colour::computation, unit);
      now_ += takes;
    }
  }

  // @return when the collective is finished
  int issue(int lane, int unit) {
    const int begin = std::max(now_, free_[lane]);
    free_[lane] = begin + kLink;
    bar(1 + lane, begin, free_[lane], lane == 0 ? colour::all_gather : colour::reduce_scatter,
        unit);
    return free_[lane];
  }

  void wait(int until) {
    if (until <= now_) return;
    bar(0, now_, until, colour::waiting, until - now_);
    played_.exposed += until - now_;
    now_ = until;
  }

  void empty(std::size_t slot) {
    bar(3 + static_cast<int>(slot), since_[slot], now_, colour::parameters, of_slot_[slot]);
    of_slot_[slot] = -1;
  }

  void bar(int lane, int from, int to, std::string_view fill, int words) {
    played_.chart.bars.push_back({lane, from, to, fill, std::to_string(words)});
  }

  void wrong(const char* what, int unit, const std::string& why) {
    played_.mistake = fmt::format("{} of unit {}, but {}", what, unit, why);
  }

  Played end() {
    for (std::size_t slot = 0; slot < of_slot_.size(); ++slot) {
      if (of_slot_[slot] >= 0) empty(slot);
    }
    played_.total = std::max({now_, free_[0], free_[1]});
    return std::move(played_);
  }

  int units_, now_ = 0, forwards_ = 0, backwards_ = 0, free_[2] = {};
  std::vector<int> of_slot_;  // the unit in each slot, -1: none
  std::vector<int> since_;    // when it came
  std::vector<int> arrived_;  // when the last gather of each unit is finished
  std::vector<int> reduced_;
  Played played_;
};

inline Played play(const std::vector<Line>& program, int units, int slots) {
  return Player(units, slots).play(program);
}

}  // namespace lesson
