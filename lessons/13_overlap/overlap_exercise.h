#pragma once

#include "schedule.h"

/// The exercise of lesson 13: how long a schedule makes computation stand still.
///
/// A collective begins when it is issued, or when the one before it in its lane is done, whichever
/// comes later. Computation that waits goes on when the collective is done, or at once if it is.
///
/// @return milliseconds, summed over all waits
int exposed(const lesson::Schedule& schedule);
