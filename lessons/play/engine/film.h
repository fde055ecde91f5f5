#pragma once

#include <deque>
#include <nlohmann/json_fwd.hpp>

#include "base/tracer.h"
#include "data/dataset.h"
#include "engine/settings.h"

namespace nanofsdp::play {

/// @file
/// @brief One optimizer step of every rank, as JSON: the real values of a real run, and the times
/// of the simulated clock.

/// Trains for two steps and films the second. A simulated rank does the same for each rank, and the
/// clock plays what it issued; the film says when. Real and simulated ranks have to agree on every
/// event and on every byte at every moment.
/// @throws UsageError if the settings do not fit together; Error if the two do not agree
nlohmann::json film_one_step(const Settings& settings, const data::Dataset& dataset);

/// Of each span: lane, name, bytes, begin, end, and for which it waits. Times count from `begin`.
nlohmann::json spans_of(const std::deque<Span>& spans, double begin);

}  // namespace nanofsdp::play
