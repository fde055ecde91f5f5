#pragma once

#include <vector>

#include "schedule.h"

/// The first exercise of lesson 13: for how long does computation wait, with this schedule?
///
/// A collective begins when it has been issued and the collective before it in its lane is
/// finished. A wait ends when its collective is finished; if the collective is finished already,
/// the wait takes no time.
///
/// @return milliseconds, summed over all waits
int exposed(const lesson::Schedule& schedule);

/// One line of the program that a rank runs in a step of full_shard.
struct Line {
  enum What {
    gather,    ///< issues the unit's all-gather, into a free slot. Takes no time
    forward,   ///< waits for the unit's all-gather, then computes for kForward
    backward,  ///< the same, for kBackward
    discard,   ///< forgets the unit's unsharded parameters: its slot is free again
    reduce,    ///< issues the reduce-scatter of the unit's gradients. Takes no time
  } what;
  int unit;
};

/// The second exercise: the program of a whole step. Which line comes when is up to you.
///
/// Forward computes each unit once, in the order 0, 1, ... units - 1; then backward computes each
/// once, in the opposite order. Each unit's gradients are reduced once, after its backward. A unit
/// computes only while its unsharded parameters are in a slot. There are `slots` of them, and all
/// are free at the end. The step is over when the last reduce-scatter is finished.
///
/// @return a program that exposes no more milliseconds than the library's does
std::vector<Line> step(int units, int slots);
