#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/recorder.h"
#include "engine/settings.h"
#include "train/trainer.h"

namespace nanofsdp::play {

/// @file
/// @brief All ranks of a training. They wait between two steps.

/// A rank and its film.
struct Player {
  /// Collective over the ranks of `world`.
  Player(std::unique_ptr<comm::Communicator> world, const Settings& settings,
         const data::Dataset& dataset);

  /// Makes one optimizer step.
  void step() { last = trainer.step(steps++); }
  /// The fingerprint of every weight, in float32, in the order of the units. Collective.
  std::uint64_t fingerprint_of_weights();

  Context context;
  Recorder recorder;
  train::Trainer trainer;
  train::StepResult last{};  ///< the results of the last step
  std::int64_t steps = 0;    ///< number of steps so far
};

/// Ranks that are threads of this process. In a browser they are fibers.
class Session {
 public:
  /// @param dataset outlives the session
  /// @throws UsageError if the settings do not fit together
  Session(const Settings& settings, const data::Dataset& dataset);

  /// Calls `work` on every rank at the same time, and waits. After an error the session is over.
  /// @throws the first error of a rank that is not a consequence of another rank's error
  void on_every_rank(const std::function<void(Player&)>& work);

  bool alive() const;  ///< whether no rank has failed
  /// One of the ranks.
  Player& player(int rank) { return *players_[static_cast<std::size_t>(rank)]; }
  const Settings& settings() const { return settings_; }  ///< the settings that it was made with

 private:
  void on_threads(const std::function<void(std::size_t)>& work);

  const Settings settings_;
  std::vector<std::unique_ptr<Player>> players_;
};

}  // namespace nanofsdp::play
