#pragma once

#include <deque>
#include <nlohmann/json_fwd.hpp>

#include "base/tracer.h"
#include "data/dataset.h"
#include "engine/settings.h"

namespace nanofsdp::play {

/// @file
/// @brief One optimizer step of every rank, as JSON: the values of a real run, and the times of the
/// simulated clock.

/// Trains for two steps and films the second one. For each rank a simulated rank does the same, and
/// the clock plays its log, which gives the times. Real and simulated ranks must agree on every
/// event, and on every byte at every moment.
/// @throws UsageError if the settings do not fit together; Error if the two do not agree
nlohmann::json film_one_step(const Settings& settings, const data::Dataset& dataset);

/// For each span: lane, name, bytes, begin, end, and the span for which it waits. Times count from
/// `begin`.
nlohmann::json spans_of(const std::deque<Span>& spans, double begin);

}  // namespace nanofsdp::play
