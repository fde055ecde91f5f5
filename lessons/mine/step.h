#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/context.h"
#include "fsdp/wrap.h"
#include "machine.h"

/// @file
/// @brief One rank under full_shard: its shards, the slots, and the hooks that gather, discard and
/// reduce.

namespace lesson::mine {

using namespace nanofsdp;

/// The rows of a model, one a unit.
using Rows = std::vector<std::vector<float>>;

/// Says whose mistake it is, before it writes where it must not.
void require(bool holds, const char* what);

/// A module that is gathered and discarded as one.
struct Unit {
  fsdp::WrappedModule wrapped;
  fsdp::Layout layout;            // its sizes
  std::vector<fsdp::Range> at{};  // of each parameter, in the row: lesson 07
  std::string name{};             // "h.0", "root"

  // Under full_shard: what this rank keeps, and where it borrows.
  Buffer parameters{}, gradients{}, m{}, v{};
  Tensor whole{}, whole_gradient{};
  ::State state = ::State::idle;
  bool gathered = false, ended = false;
};

/// The forward of so many blocks, each gathered when it is needed, or one ahead.
lesson::Schedule forward_of(int blocks, bool ahead);

/// The units of a model, blocks in order and the root last.
std::deque<Unit> units_of(gpt::GPT& model, int W, const Pieces& pieces);

/// The part of a parameter that a rank owns: lesson 08.
fsdp::Piece piece_of(const Unit& unit, std::size_t i, int rank, const Pieces& pieces);

/// Points parameters, or gradients, at a row.
void show_parameters(Unit& unit, float* row);
void show_gradients(Unit& unit, float* row);

/// One rank. Model, units and the rest outlive it.
class ShardedRank {
 public:
  /// @param rows the first values
  ShardedRank(Context& context, comm::Communicator& world, const Pieces& pieces,
              std::deque<Unit>& units, const Rows& rows);

  /// Before forward. @param first whether this is the first micro-batch of its step
  void begin_pass(bool training, bool first);
  /// After the last backward of a step. @return the norm of the gradient
  float update(int step);
  /// New values for the shards.
  void load(const Rows& rows);

  /// Milliseconds for which a forward waits, in the schedule that this rank chose.
  int waits() const { return waits_; }

 private:
  void attach(Unit& unit);
  void call(::Hook hook, Unit& unit);
  bool due(const std::string& event);
  void gather(Unit& unit);
  void gather_ahead();
  void discard(Unit& unit);
  void reduce_completed();

  Context& context_;
  comm::Communicator& world_;
  const Pieces& pieces_;
  std::deque<Unit>& units_;
  Buffer block_slots_, root_slot_, block_gradients_, root_gradient_, norm_, coefficient_;
  bool ahead_ = false, first_ = true;
  int waits_ = 0;
  std::vector<std::string> events_;  // of this pass, as lesson 11 lists them
  std::vector<bool> done_;           // which of them
  std::vector<int> used_, order_;    // units: as forward used them, as gradients are completed
  std::size_t reduced_ = 0;          // so many of the order
};

}  // namespace lesson::mine
