#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "engine/probe.h"

namespace nanofsdp::play {

/// @file
/// @brief What a rank did and held, event by event: the film that the page shows.
///
/// A recorder takes the place of the rank's streams and passes everything on. So it sees each piece
/// of work when it is issued, looks at the ledger then, and asks the stream for the time. On a real
/// rank and on a simulated one it writes the same film, but for the times.

/// Bytes in use of each class.
using Memory = std::array<std::int64_t, kMemoryClasses.size()>;

/// Memory at a moment.
struct Sample {
  double at = 0;    ///< seconds; when the main thread was there
  Memory memory{};  ///< from then on
  friend bool operator==(const Sample& a, const Sample& b) { return a.memory == b.memory; }
};

/// Something that the main thread did: an event of the tracer's order, or a span, or both.
struct Happening {
  std::string event;       ///< "U.transformer.h.0" (base/tracer.h); empty: a span alone
  std::size_t span = 0;    ///< its number in the tracer, from 1; 0: it takes no time
  std::size_t sample = 0;  ///< the last one before it
  friend bool operator==(const Happening&, const Happening&) = default;
};

/// A number from a moment on.
struct Sighting {
  std::size_t sample = 0;  ///< that moment's
  Values values{};
};

/// Records while it is on.
class Recorder {
 public:
  /// Puts itself between the rank and its streams. The context is new, and outlives it.
  explicit Recorder(Context& context);

  /// From now on, with the tracer.
  /// @param activations bytes that they take now
  void start(std::function<std::int64_t()> activations);
  void stop();  ///< what was recorded stays
  /// Sees this number, too. The probe outlives the recording.
  void follow(const Probe& probe) { probe_ = &probe; }

  const std::deque<Sample>& samples() const { return samples_; }            ///< oldest first
  const std::vector<Happening>& happenings() const { return happenings_; }  ///< in order of issue
  const std::vector<Sighting>& life() const { return life_; }  ///< of the number, where it changed

 private:
  class Watched;
  void look(bool is_last = false);
  void see(const Values& values);

  Context& context_;
  Stream* compute_ = nullptr;  // the rank's own
  bool on_ = false;
  std::function<std::int64_t()> activations_;
  std::deque<Sample> samples_;  // which never moves what it holds
  std::vector<Happening> happenings_;
  const Probe* probe_ = nullptr;
  std::vector<Sighting> life_;
  std::size_t spans_ = 0;  // of the tracer, seen so far
};

}  // namespace nanofsdp::play
