#pragma once

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
  explicit Tape(Context& context) : context_(context), arena_(context) {}

  Stream& stream() { return *context_.compute; }  ///< where operators run

  /// What activations and their gradients are. FSDP sets it before each pass of its model: bfloat16
  /// where a GPU computes with bfloat16 parameters, else float32. Statistics and losses stay
  /// float32: a module asks for that. A module that knows float32 alone asks for it too, and casts
  /// (ops/cast.h) what it takes and what it gives; else its first use of the elements throws.
  DType dtype = DType::float32;

  /// Memory for an activation or a temporary, valid until reset() or the end of the innermost
  /// Scope.
  Tensor allocate(Shape shape) { return allocate(shape, dtype); }
  /// The same, of another dtype than activations have.
  Tensor allocate(Shape shape, DType of) { return arena_.allocate(shape, of); }

  /// Frees on destruction what was allocated since construction: the temporaries of one backward.
  class Scope {
   public:
    /// Scopes of one tape end in the reverse order of their beginning.
    explicit Scope(Tape& tape) : tape_(tape), position_(tape.arena_.position()) {}
    ~Scope() { tape_.arena_.rewind(position_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    /// Frees everything now but `result`, which moves to the beginning of the scope.
    Tensor keep(Tensor result);

   private:
    Tape& tape_;
    Arena::Position position_;
  };

  /// While it lives, forward saves nothing: what it computes will be computed again.
  class Pause {
   public:
    /// The tape outlives it.
    explicit Pause(Tape& tape) : tape_(tape), before_(std::exchange(tape.saving_, false)) {}
    ~Pause() { tape_.saving_ = before_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Tape& tape_;
    bool before_;
  };

  /// While it lives, the module is the one at work: what is saved and restored is its.
  class AtWork {
   public:
    /// Tape and module outlive it.
    AtWork(Tape& tape, const Module& module) : tape_(tape) { tape_.at_work_.push_back(&module); }
    ~AtWork() { tape_.at_work_.pop_back(); }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

   private:
    Tape& tape_;
  };

  /// Starts a forward pass, after the end of the one before. `training`: activations are saved and
  /// dropout is on.
  /// @param key which rows of which micro-step: the part of a dropout key that sites share
  /// @throws Error if the pass before saved activations and has not ended, or a module still runs
  void begin(bool training, const DropoutKey& key = {});

  /// Starts a forward pass over the next positions of one text, which the cache then holds too.
  /// @throws Error as begin()
  void begin_decoding(KeyValueCache& cache);
  KeyValueCache* cache() const { return cache_; }  ///< null unless decoding

  bool training() const { return training_; }  ///< as begin() was told
  bool saving() const { return saving_; }      ///< training, and no Pause

  /// The dropout key of one place in the model.
  DropoutKey dropout_key(int site) const;

  /// Keeps tensors for backward. Does nothing unless saving().
  void save(std::initializer_list<Tensor> tensors);

  /// The tensors of the last save() not yet restored.
  /// @throws Error naming both modules, if another module saved them, or another number of them
  template <std::size_t N>
  std::array<Tensor, N> restore() {
    require_own(N);
    std::array<Tensor, N> tensors;
    for (std::size_t i = N; i-- > 0;) tensors[i] = pop();
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

  /// Ends a pass whose backward is over.
  /// @throws Error if that did not restore what forward saved
  void end_backward();

 private:
  // A save(): so many tensors, of the module that was at work, or of none.
  struct Saved {
    const Module* by = nullptr;
    std::size_t count = 0;
  };
  const Module* at_work() const { return at_work_.empty() ? nullptr : at_work_.back(); }
  std::string name_of(const Module* module) const;
  void require_own(std::size_t count);
  Tensor pop();
  void end(bool backward);

  Context& context_;
  Arena arena_;
  bool training_ = false;
  bool saving_ = false;
  KeyValueCache* cache_ = nullptr;
  DropoutKey key_;
  std::vector<Tensor> tensors_;  // that were saved
  std::vector<Saved> saved_;     // by which module
  std::vector<const Module*> at_work_;
  std::vector<std::weak_ptr<EndOfPass>> ends_;
};

}  // namespace nanofsdp::nn
