#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/dropout_key.h"
#include "nn/arena.h"
#include "nn/key_value_cache.h"

namespace nanofsdp::nn {

/// @file
/// @brief What backward needs from forward.
///
/// Forward saves activations, backward restores them in reverse order:
///
///     forward:   y = f(x, weight)                 tape.save({x});
///     backward:  auto [x] = tape.restore<1>();    adds to weight.grad_to_add_to()
///
/// The tape holds activations, never the memory of a parameter: FSDP frees that memory between
/// forward and backward. It knows which module is at work, so a module that restores what another
/// one saved is told both names.

class Module;

/// The tape of one rank, for one pass at a time. A step of a model that is not sharded, and an
/// evaluation (a sharded one has backward and its end in one call, fsdp/fully_shard.h):
///
///     nn::Tape tape(context);
///     tape.begin(/*training=*/true);
///     const Tensor y = model.forward(tape, x);  // and dy, the gradient of the loss by y
///     model.backward(tape, dy);
///     tape.end_backward();
///
///     tape.begin(/*training=*/false);
///     const Tensor z = model.forward(tape, x);  // valid until end()
///     tape.end();
class Tape {
 public:
  /// @param context outlives this object
  /// @param seed of masks of dropout, in passes without a key
  explicit Tape(Context& context, std::uint64_t seed = 0)
      : context_(context), arena_(context), seed_(seed) {}

  Stream& stream() { return *context_.compute; }  ///< where operators run

  /// What activations and their gradients are. FSDP sets it before each pass of its model: bfloat16
  /// where a GPU computes with bfloat16 parameters, else float32. Statistics and losses stay
  /// float32: a module asks for that. A module that knows float32 alone asks for it too, and casts
  /// (ops/cast.h) what it takes and what it gives; else its first use of the elements throws.
  DType dtype = DType::float32;

  /// Memory for an activation or a temporary, valid until the end of the pass or of the innermost
  /// Scope. Outside training, a module's forward is a Scope: what it returns is kept.
  Tensor allocate(Shape shape) { return allocate(shape, dtype); }
  /// The same, of another dtype than activations have.
  Tensor allocate(Shape shape, DType of) { return arena_.allocate(shape, of); }

  /// Frees on destruction what was allocated since construction, but for what it keeps: temporaries
  /// of a backward, or of an evaluation.
  class Scope {
   public:
    /// Scopes of one tape end in the reverse order of their beginning.
    /// @param frees whether it frees anything: forward of a training keeps what backward needs
    /// @param pauses while it lives, forward saves nothing: what it computes will be computed again
    explicit Scope(Tape& tape, bool frees = true, bool pauses = false)
        : tape_(tape), frees_(frees), begin_(tape.arena_.position()), end_(begin_) {
      saved_ = std::exchange(tape.saving_, tape.saving_ && !pauses);
    }
    ~Scope() {
      tape_.saving_ = saved_;
      if (frees_) tape_.arena_.rewind(end_);
    }

    /// Frees everything now but `result`, which moves to the beginning of the scope and outlives
    /// it. What was kept before is freed too.
    /// @returns where the result lies now; where it is no memory of the scope, it does not move
    Tensor keep(Tensor result) {
      if (!frees_) return result;
      result = tape_.arena_.keep(begin_, result);
      end_ = tape_.arena_.position();
      return result;
    }

   private:
    Tape& tape_;
    bool frees_, saved_;
    Arena::Position begin_, end_;
  };

  /// While it lives, the module is the one at work: what is saved and restored is its.
  class AtWork {
   public:
    /// Tape and module outlive it.
    AtWork(Tape& tape, const Module& module) : tape_(tape) { tape_.at_work_.push_back(&module); }
    ~AtWork() { tape_.at_work_.pop_back(); }

   private:
    Tape& tape_;
  };

  /// Starts a forward pass. The pass before must have ended. In training, activations are saved and
  /// dropout is on. Its masks are those of no other pass, on this rank or on any other.
  /// @throws Error if the pass before saved activations and has not ended, or a module still runs
  void begin(bool training) { begin(training, {seed_, context_.passes++, context_.rank}); }
  /// The same, but the key decides the masks of dropout: two passes with equal keys drop the same
  /// elements. A key says which rows of which micro-step the pass computes.
  void begin(bool training, const DropoutKey& key);

  /// Starts a forward pass over the next positions of one text, which the cache then holds too.
  /// @throws Error as begin()
  void begin_decoding(KeyValueCache& cache) { begin(/*training=*/false), cache_ = &cache; }
  KeyValueCache* cache() const { return cache_; }  ///< null unless decoding

  bool training() const { return training_; }  ///< as begin() was told
  bool saving() const { return saving_; }      ///< training, and no Scope pauses

  /// Which mask is the next in this pass: no other call of it has the same. Backward asks
  /// redraw_mask() for it, as for what was saved. A module that computes its forward again, by
  /// hand, saves its input first: restore() brings the masks back, too, which came after that
  /// save().
  DropoutKey draw_mask();
  /// The mask of the last draw_mask(). @throws Error as restore()
  DropoutKey redraw_mask() { return require_own(0), key_; }

  /// Keeps tensors for backward. Does nothing unless saving().
  void save(std::initializer_list<Tensor> tensors);

  /// The tensors of the last save() not yet restored.
  /// @throws Error naming both modules, if another module saved them, or another number of them
  template <std::size_t N>
  std::array<Tensor, N> restore() {
    require_own(N);
    std::array<Tensor, N> tensors;
    std::copy(tensors_.end() - N, tensors_.end(), tensors.begin());
    tensors_.resize(tensors_.size() - N);
    return tensors;
  }

  /// What to call when the pass under way ends: with true after a whole backward, with false after
  /// an evaluation or a pass that was given up. It is called once, unless it is gone by then.
  using EndOfPass = std::function<void(bool backward)>;
  /// Registers `callback`, which the caller goes on to own, with the pass under way.
  void at_end(const std::shared_ptr<EndOfPass>& callback) { ends_.push_back(callback); }
  /// Whether it is registered with the pass under way.
  bool knows(const std::shared_ptr<EndOfPass>& callback) const;

  /// Ends a pass: forgets what was saved, frees every activation.
  void end() { end(/*backward=*/false); }

  /// Gives the memory of activations back until the next pass, between two passes: for something
  /// else that is large.
  void release() { arena_.clear(); }

  /// Ends a pass whose backward is over.
  /// @throws Error if that did not restore what forward saved
  void end_backward();

 private:
  // A save(): so many tensors, of the module that was at work, or of none.
  struct Saved {
    const Module* by = nullptr;
    std::size_t count = 0;
    int masks = 0;  // that were drawn before it
  };
  const Module* at_work() const { return at_work_.empty() ? nullptr : at_work_.back(); }
  std::string name_of(const Module* module) const;
  void require_own(std::size_t count);
  void end(bool backward);

  Context& context_;
  Arena arena_;
  bool sized_ = false;  // the arena, by a training pass
  bool training_ = false;
  bool saving_ = false;
  KeyValueCache* cache_ = nullptr;
  std::uint64_t seed_;
  DropoutKey key_;               // of the next mask: its site counts the pass's masks
  std::vector<Tensor> tensors_;  // that were saved
  std::vector<Saved> saved_;     // by which module
  std::vector<const Module*> at_work_;
  std::vector<std::weak_ptr<EndOfPass>> ends_;
};

}  // namespace nanofsdp::nn
