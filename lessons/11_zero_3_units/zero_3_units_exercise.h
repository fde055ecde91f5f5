#pragma once

#include <string>

/// The exercise of lesson 11: what happens to the units of a model, in the order of events.
///
///     U.x   unit x is gathered, unsharded       R.x   discarded, resharded
///     RS.x  its gradient is reduced
///
/// The model is as nanoGPT: a root unit called "root" and in it blocks called "h.0", "h.1", ...,
/// one after another. Nothing is prefetched.
///
/// @param blocks   how many, 1 or more
/// @param training forward and backward; else forward alone, after which nothing stays unsharded
/// @return the events, one space between two of them: "U.root U.h.0 R.h.0 ..."
std::string events_of(int blocks, bool training);
