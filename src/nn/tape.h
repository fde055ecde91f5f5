#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "base/context.h"
#include "base/dropout_key.h"
#include "nn/arena.h"
#include "nn/key_value_cache.h"
#include "nn/parameter.h"

namespace nanofsdp::nn {

/// @file
/// @brief What backward needs from forward, and when a gradient is complete.
///
/// Forward saves activations, backward restores them in reverse order:
///
///     forward:   y = f(x, weight)      tape.save({x});           tape.use(weight);
///     backward:  auto [x] = tape.restore<1>();   ...             tape.accumulated(weight);
///
/// The tape holds activations and handles to parameters, never the memory of a parameter: FSDP
/// frees that memory between forward and backward.
///
/// A parameter used twice in forward (a tied weight) gets its gradient in two parts. The tape
/// counts the uses, so that `post_accumulate_grad` fires once, after the last.
class Tape {
 public:
  explicit Tape(Context& context) : context_(context), arena_(context) {}

  Stream& stream() { return *context_.compute; }

  /// Memory for an activation or a temporary, valid until reset() or the end of the innermost
  /// Scope.
  Tensor allocate(Shape shape, DType dtype = DType::float32) {
    return arena_.allocate(shape, dtype);
  }

  /// Frees on destruction what was allocated since construction: the temporaries of one backward.
  class Scope {
   public:
    explicit Scope(Tape& tape) : arena_(tape.arena_), position_(arena_.position()) {}
    ~Scope() { arena_.rewind(position_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    Arena::Position position_;
  };

  /// While it lives, forward saves nothing: what it computes will be computed again.
  class Pause {
   public:
    explicit Pause(Tape& tape) : tape_(tape) { tape_.saving_ = false; }
    ~Pause() { tape_.saving_ = tape_.training_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Tape& tape_;
  };

  /// Starts a forward pass. `training`: activations are saved and dropout is on.
  /// @param key which rows of which micro-step: the part of a dropout key that sites share
  void begin(bool training, const DropoutKey& key = {});

  /// Starts a forward pass over the next positions of one text, which the cache then holds too.
  void begin_decoding(KeyValueCache& cache);
  KeyValueCache* cache() const { return cache_; }  ///< null unless decoding

  bool training() const { return training_; }
  bool saving() const { return saving_; }  ///< training, and no Pause

  /// The dropout key of one place in the model.
  DropoutKey dropout_key(int site) const;

  /// Keeps tensors for backward. Does nothing unless saving().
  void save(std::initializer_list<Tensor> tensors);

  /// The tensors of the last save() not yet restored.
  template <std::size_t N>
  std::array<Tensor, N> restore() {
    std::array<Tensor, N> tensors;
    for (std::size_t i = N; i-- > 0;) tensors[i] = pop();
    return tensors;
  }

  /// Forward used the parameter. Does nothing unless saving(), or if the parameter is frozen.
  void use(Parameter& parameter);

  /// Backward has added the parameter's gradient for one use and no longer reads its data.
  void accumulated(Parameter& parameter);

  /// Called when a backward pass is complete, to settle what got no gradient.
  void on_backward_end(std::function<void()> callback) { backward_end_ = std::move(callback); }

  /// Ends a pass: forgets what was saved, frees every activation.
  /// @throws Error if backward ran and did not restore what forward saved
  void end();

  /// Ends a backward pass: the callback, then end().
  void end_backward();

 private:
  Tensor pop();

  Context& context_;
  Arena arena_;
  bool training_ = false;
  bool saving_ = false;
  KeyValueCache* cache_ = nullptr;
  DropoutKey key_;
  std::vector<Tensor> saved_;
  std::vector<Parameter*> used_;
  std::function<void()> backward_end_;
};

}  // namespace nanofsdp::nn
