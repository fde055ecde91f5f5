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

#include "base/dropout_key.h"
#include "nn/arena.h"
#include "nn/key_value_cache.h"

namespace nanofsdp::nn {

/// @file
/// @brief Keeps the activations of forward that backward needs.
///
/// Forward saves activations, and backward restores them in reverse order:
///
///     forward:   y = f(x, weight)                 tape.save({x});
///     backward:  auto [x] = tape.restore<1>();    adds to weight.grad_to_add_to()
///
/// The tape holds activations, never the memory of a parameter: FSDP frees that memory between
/// forward and backward. The tape knows which module computes. So if a module restores the tensors
/// of another module, the error names both.

class Module;

/// The tape of one rank, for one pass at a time. This is a step of a model that is not sharded, and
/// an evaluation. (For a sharded model one call is enough for backward and the end of the pass:
/// fsdp/fully_shard.h.)
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
  /// @param context must outlive this object
  /// @param seed decides the masks of dropout in passes without a key
  explicit Tape(Context& context, std::uint64_t seed = 0)
      : context_(context), arena_(context), seed_(seed) {}
  /// Ends a pass that has not ended, as when an exception leaves the function that has the tape.
  ~Tape();

  Stream& stream() { return *context_.compute; }  ///< the stream on which operators run

  /// The dtype of activations and of their gradients. FSDP sets it before each pass of its model:
  /// it is bfloat16 if a GPU computes with bfloat16 parameters, and float32 otherwise. For
  /// statistics and losses modules allocate float32. A module that can only compute in float32
  /// casts its input and its output (ops/copy_chunks.h). If it does not, it throws when it first
  /// uses the elements.
  DType dtype = DType::float32;

  /// Memory for an activation or a temporary. It is valid until the pass ends, or until the
  /// innermost Scope does; begin() frees what was allocated before it. Outside training, each
  /// module's forward is a Scope that keeps the result.
  Tensor allocate(Shape shape) { return allocate(shape, dtype); }
  /// The same, with another dtype.
  Tensor allocate(Shape shape, DType of) { return arena_.allocate(shape, of); }

  /// When it is destroyed, it frees everything that was allocated since it was made, except the
  /// result that it keeps. It frees the temporaries of a backward, or of an evaluation.
  class Scope {
   public:
    /// Scopes of one tape must end in the reverse order in which they began.
    /// @param frees if false, it frees nothing: in training, backward needs what forward has
    /// allocated
    /// @param pauses if true, forward saves nothing while the scope lives. Backward will compute it
    ///        again
    explicit Scope(Tape& tape, bool frees = true, bool pauses = false)
        : tape_(tape), frees_(frees), begin_(tape.arena_.position()), end_(begin_) {
      saved_ = std::exchange(tape.saving_, tape.saving_ && !pauses);
    }
    ~Scope() {
      tape_.saving_ = saved_;
      if (frees_) tape_.arena_.rewind(end_);
    }

    /// Frees everything in the scope now, except `result`. The result moves to the beginning of the
    /// scope and outlives it. A result that was kept before is freed.
    /// @returns the result where it lies now. It does not move if it is not memory of the scope
    /// @throws Error as save() does
    Tensor keep(Tensor result) {
      tape_.require_activation(result);
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

  /// As long as it lives, this module computes, and the tensors that are saved and restored belong
  /// to it.
  struct AtWork {
    /// Tape and module must outlive it.
    AtWork(Tape& on, const Module& module) : tape(on) { tape.at_work_.push_back(&module); }
    ~AtWork() { tape.at_work_.pop_back(); }

    Tape& tape;  ///< the tape of the pass
  };

  /// Starts a forward pass. The pass before must have ended. In training, activations are saved and
  /// dropout is on. Its masks are those of no other pass without a key, on this rank or on any
  /// other. A pass with a key may have the same masks, if the key has the tape's seed.
  /// @throws Error if the pass before has not ended and saved activations, or trained a sharded
  ///         model, or if a module still runs
  void begin(bool training) { begin(training, {seed_, context_.passes++, context_.rank}); }
  /// The same, but the key decides the masks of dropout: two passes with equal keys drop the same
  /// elements. A key names the micro-step and the rows that the pass computes.
  void begin(bool training, const DropoutKey& key);

  /// Starts a forward pass over the next positions of one text. It adds them to the cache.
  /// @throws Error as begin() does
  void begin_decoding(KeyValueCache& cache) { begin(/*training=*/false), cache_ = &cache; }
  KeyValueCache* cache() const { return cache_; }  ///< null unless decoding

  bool training() const { return training_; }  ///< the argument of begin()
  bool saving() const { return saving_; }      ///< whether it is training, and no Scope pauses

  /// The key of the next mask of dropout. In a pass, each call returns another key. Backward calls
  /// redraw_mask() to get it back. A module may run its forward again in backward. Then it saves
  /// its input before it draws masks, and restore() makes draw_mask() begin again after that
  /// save().
  DropoutKey draw_mask();
  /// The key that the last draw_mask() returned. @throws Error as restore() does
  DropoutKey redraw_mask() { return require_own(0), key_; }

  /// Saves tensors for backward, if saving().
  /// @throws Error naming a parameter of the outermost module at work, if one of them is memory of
  ///   that: FSDP frees it before backward
  void save(std::initializer_list<Tensor> tensors);

  /// Returns the tensors of the last save() that has not been restored.
  /// @throws Error naming both modules, if another module has saved them, or if their number
  /// differs
  template <std::size_t N>
  std::array<Tensor, N> restore() {
    require_own(N);
    std::array<Tensor, N> tensors;
    std::copy(tensors_.end() - N, tensors_.end(), tensors.begin());
    tensors_.resize(tensors_.size() - N);
    return tensors;
  }

  /// A function that the tape calls when the pass ends. It gets true after a whole backward, and
  /// false after an evaluation, or if the pass was given up.
  using EndOfPass = std::function<void(bool backward)>;
  /// Registers `callback` for the end of this pass, once. The caller owns it; if it is destroyed
  /// before the pass ends, it is not called.
  void at_end(const std::shared_ptr<EndOfPass>& callback) { ends_.push_back(callback); }
  /// Whether `callback` is registered for the end of this pass.
  bool knows(const std::shared_ptr<EndOfPass>& callback) const {
    return std::ranges::any_of(ends_, [&](const auto& end) { return end.lock() == callback; });
  }

  /// Ends a pass. It forgets the saved tensors, and frees every activation.
  void end() { end(/*backward=*/false); }

  /// Frees the memory of activations between two passes, if something else needs it. The next pass
  /// allocates it again.
  /// @throws Error as begin() does
  void release() { require_ended(), arena_.clear(); }

  /// Ends a pass after its backward.
  /// @throws Error if backward has not restored everything that forward saved
  void end_backward();

 private:
  // One call of save(): the number of its tensors, and the module that made the call, if there is
  // one.
  struct Saved {
    const Module* by = nullptr;
    std::size_t count = 0;
    int masks = 0;  // masks that were drawn before it
  };
  const Module* at_work() const { return at_work_.empty() ? nullptr : at_work_.back(); }
  std::string name_of(const Module* module) const;
  void require_own(std::size_t count);
  void require_activation(const Tensor& tensor) const;
  void require_ended() const;
  void end(bool backward);

  Context& context_;
  Arena arena_;
  bool sized_ = false, training_ = false, saving_ = false;  // sized_: a training pass has run
  KeyValueCache* cache_ = nullptr;
  std::uint64_t seed_;
  DropoutKey key_;               // key of the next mask; its site counts the masks of the pass
  std::vector<Tensor> tensors_;  // the saved tensors
  std::vector<Saved> saved_;     // the calls of save()
  std::vector<const Module*> at_work_;
  std::vector<std::weak_ptr<EndOfPass>> ends_;
};

}  // namespace nanofsdp::nn
