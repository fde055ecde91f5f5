#pragma once

#include <deque>
#include <string>
#include <vector>

#include "base/context.h"
#include "fsdp/wrap.h"
#include "machine.h"

/// @file
/// @brief One rank under full_shard: its shards, the slots, and the verbs that the hooks of lesson
/// 11 call.

namespace lesson::mine {

using namespace nanofsdp;

/// The rows of a model, one for each unit.
using Rows = std::vector<std::vector<float>>;

/// Names the piece that is wrong, before the program would write where it must not.
void require(bool holds, const char* what);

/// A module that is gathered and discarded as a whole.
struct Unit {
  fsdp::WrappedModule wrapped;
  fsdp::Layout layout;            // the sizes of the unit
  std::vector<fsdp::Range> at{};  // the range of each parameter in the row: lesson 07
  std::string name{};             // "h.0", "root"

  // The unit under full_shard: the memory that this rank keeps, and the slots that it borrows.
  Buffer parameters{}, gradients{}, m{}, v{};
  Tensor whole{}, whole_gradient{};
  ::State state = ::State::idle;
  bool gathered = false;  // whether its parameters are in their slot
  bool ahead = false;     // whether they were gathered before the hook has asked for them
  bool borrowed = false;  // whether it has a gradient that is not reduced
  bool complete = false;  // whether that gradient may be reduced
};

/// The schedule of a forward over this number of blocks. Each is gathered when it is needed, or one
/// block ahead.
lesson::Schedule forward_of(int blocks, bool ahead);

/// The units of a model: the blocks in order, and the root last.
std::deque<Unit> units_of(gpt::GPT& model, int W, const Pieces& pieces);

/// The part of a parameter that a rank owns: lesson 08.
fsdp::Piece piece_of(const Unit& unit, std::size_t i, int rank, const Pieces& pieces);

/// Lets the parameters, or the gradients, show a row.
void show_parameters(Unit& unit, float* row);
void show_gradients(Unit& unit, float* row);

/// One rank. The model, the units and all other arguments outlive it.
class ShardedRank {
 public:
  /// @param rows the first values
  ShardedRank(Context& context, comm::Communicator& world, const Pieces& pieces,
              std::deque<Unit>& units, const Rows& rows);
  ~ShardedRank();

  /// Call it before forward. @param first whether this is the first micro-batch of its step
  void begin_pass(bool training, bool first);
  /// Call it after the last backward of a step. @return the norm of the gradient
  float update(int step);
  /// Stores new values in the shards.
  void load(const Rows& rows);

  /// Milliseconds for which a forward waits, in the schedule that this rank has chosen.
  int waits() const { return waits_; }

 private:
  class Verbs;

  void attach(Unit& unit);
  void call(::Hook hook, Verbs& verbs);
  void gather(Unit& unit);
  void gather_ahead();
  void discard(Unit& unit);
  void reduce_completed();

  Context& context_;
  comm::Communicator& world_;
  const Pieces& pieces_;
  std::deque<Unit>& units_;
  Buffer block_slots_, root_slot_, block_gradients_, root_gradient_, norm_, coefficient_;
  std::deque<Verbs> verbs_;
  std::vector<float> discarded_;  // NaN: what the views of a discarded unit show
  bool ahead_ = false, first_ = true, training_ = true;
  int waits_ = 0;
  std::vector<int> blocks_;  // blocks in the order in which this pass gathers them
  std::size_t next_ = 0;     // how many of these gathers have been issued
  // Units: in the order of forward; in the order in which their gradients are complete.
  std::vector<int> used_, order_;
  std::size_t reduced_ = 0;  // how many units of this order are reduced
};

}  // namespace lesson::mine
