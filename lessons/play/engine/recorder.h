#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/context.h"
#include "engine/probe.h"
#include "nn/tape.h"

namespace nanofsdp::play {

/// @file
/// @brief Records the work and the memory of a rank, event by event. The page shows this film.
///
/// A recorder takes the place of the rank's streams and passes every call on. So it sees each piece
/// of work when it is issued, reads the ledger at that moment, and asks the stream for the time. It
/// writes the same film on a real rank and on a simulated one, except for the times.

/// The bytes in use of each class.
using Memory = std::array<std::int64_t, kMemoryClasses.size()>;

/// The memory at a moment.
struct Sample {
  double at = 0;    ///< seconds at which the main thread was there
  Memory memory{};  ///< memory from then until the next sample
  friend bool operator==(const Sample& a, const Sample& b) { return a.memory == b.memory; }
};

/// Something that the main thread did: an event of the tracer's order, or a span, or both.
struct Happening {
  std::string event;       ///< "U.transformer.h.0" (base/tracer.h); empty: a span alone
  std::size_t span = 0;    ///< its number in the tracer, from 1; 0: it takes no time
  std::size_t sample = 0;  ///< number of the last sample before it
  friend bool operator==(const Happening&, const Happening&) = default;
};

/// The values of the followed number from a moment on.
struct Sighting {
  std::size_t sample = 0;  ///< number of that moment's sample
  Values values{};
};

/// Records while it is on.
class Recorder {
 public:
  /// Puts itself between the rank and its streams. The context is new, and outlives the recorder.
  explicit Recorder(Context& context);

  /// Starts recording, together with the tracer, between two passes. A pass before has sized the
  /// tape, so all activations lie in one block.
  /// @param tape of the rank; outlives the recording
  /// @param batch the bytes of a batch, which count as activations, too
  void start(nn::Tape& tape, std::int64_t batch);
  void stop();  ///< stops recording; the record stays
  /// Also records this number. The probe outlives the recording.
  void follow(const Probe& probe) { probe_ = &probe; }

  const std::deque<Sample>& samples() const { return samples_; }  ///< oldest first
  /// In the order of issue.
  const std::vector<Happening>& happenings() const { return happenings_; }
  /// The values of the followed number, each time it has changed.
  const std::vector<Sighting>& life() const { return life_; }

 private:
  class Watched;
  Address top() const { return tape_->allocate({0}).address(); }
  void look(bool is_last = false);
  void see(const Values& values);

  Context& context_;
  Stream* compute_ = nullptr;  // the rank's own stream
  bool on_ = false;
  nn::Tape* tape_ = nullptr;
  Address bottom_ = 0;          // address of an empty tape
  std::int64_t batch_ = 0;      // bytes of a batch
  std::deque<Sample> samples_;  // a deque never moves its elements
  std::vector<Happening> happenings_;
  const Probe* probe_ = nullptr;
  std::vector<Sighting> life_;
  std::size_t spans_ = 0;  // number of the tracer's spans that it has seen
};

}  // namespace nanofsdp::play
