#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nn/parameter.h"
#include "nn/tape.h"

namespace nanofsdp::nn {

/// @file
/// @brief The room `nn`: what models are made of. A module has parameters, children, a forward, a
/// backward, and four points at which others hook in.
///
/// Comes in: tensors of activations, and the values that the parameters show at that moment.
/// Goes out: activations and gradients. Forward leaves on the tape (tape.h) what backward needs.
///
/// A module is like PyTorch's nn.Module, but its backward is written out, not recorded. The public
/// forward and backward call hooks before and after the module's own functions. FSDP needs nothing
/// else of a model.

/// The functions that a module calls at one point, in the order in which they were added. Each gets
/// the tape of the pass. If a hook adds or removes hooks, this counts from the next time on.
class HookList {
 public:
  using Hook = std::function<void(Tape&)>;
  HookList() = default;
  /// Makes a list of one hook. So `module.hooks.pre_forward = f` replaces the list.
  template <std::invocable<Tape&> F>
  HookList(F hook) : hooks_{{0, std::move(hook)}} {}

  /// Adds a hook at the end. @returns a handle for remove(); no other hook of this list ever gets
  /// it
  int add(Hook hook) { return hooks_.emplace(++last_, std::move(hook)).first->first; }
  void remove(int handle) { hooks_.erase(handle); }  ///< does nothing if it is removed already
  explicit operator bool() const { return !hooks_.empty(); }  ///< whether there is a hook

  /// Calls the hooks.
  void operator()(Tape& tape) const {
    for (const auto& [handle, hook] : std::map(hooks_)) hook(tape);
  }

 private:
  std::map<int, Hook> hooks_;
  int last_ = 0;  // handle
};

/// The base of every layer and every model. A module of your own registers its parameters and
/// children in its constructor, and has two functions. It reads and writes elements only in work
/// that it enqueues on the stream. Then it also runs on a simulated device, which has no elements.
/// This one computes on the CPU:
///
///     struct Gain final : nn::Module {  // y = gain * x, with a gain that is learnt
///       std::shared_ptr<nn::Parameter> gain =
///           std::make_shared<nn::Parameter>(Shape{1}, nn::Init::ones());
///       Gain() { add("gain", gain); }
///       Tensor do_forward(nn::Tape& tape, Tensor x) override {
///         const Tensor y = tape.allocate(x.shape());
///         tape.stream().enqueue([=, g = gain->data] {
///           for (int i = 0; i < x.numel(); ++i) y.f32()[i] = g.f32()[0] * x.f32()[i];
///         });
///         tape.save({x});
///         return y;
///       }
///       Tensor do_backward(nn::Tape& tape, Tensor dy) override {
///         const Tensor x = tape.restore<1>()[0], dx = tape.allocate(x.shape());
///         tape.stream().enqueue([=, g = gain->data, dg = gain->grad_to_add_to()] {
///           for (int i = 0; i < x.numel(); ++i) {
///             dx.f32()[i] = g.f32()[0] * dy.f32()[i];
///             if (!dg.empty()) dg.f32()[0] += dy.f32()[i] * x.f32()[i];  // empty if frozen
///           }
///         });
///         return dx;
///       }
///     };
///
/// A module with children calls their forward and backward, as Block does in gpt/block.h.
class Module {
 public:
  virtual ~Module() = default;
  Module() = default;
  Module(Module&&) = delete;  // so it cannot be copied either

  /// The hooks before and after forward and backward.
  struct Hooks {
    HookList pre_forward{};    ///< before the module's own forward
    HookList post_forward{};   ///< after it
    HookList pre_backward{};   ///< before the module's own backward
    HookList post_backward{};  ///< after it
  };
  Hooks hooks;  ///< your hooks; you may add them before or after the module is sharded
  /// The hooks of FSDP, which gather and free the parameters. They run inside your hooks. So your
  /// hooks run before the parameters are gathered, and after they are freed.
  Hooks innermost;

  /// If true, forward keeps only its input. Backward first runs forward again, with the hooks of
  /// the modules inside this one, but not with its own (activation recompute, or checkpointing:
  /// Chen et al. 2016, arXiv 1604.06174).
  bool recompute = false;

  /// Computes the output. The tensor lies on the tape.
  /// @throws ShapeError if an input does not fit a layer. An error of a hook passes through
  Tensor forward(Tape& tape, Tensor x);

  /// Computes the gradient of the input, and adds to the gradients of the parameters. Modules run
  /// backward in the reverse order of forward.
  /// @param dy the gradient of the output, in its shape. Some modules overwrite it; they say so
  /// @returns the gradient of the input, in its shape; empty if the input has none
  /// @throws Error naming both modules, if backward does not run in the reverse order
  Tensor backward(Tape& tape, Tensor dy);

  /// A child and its local name, which is one part of a path: "attn" in "h.0.attn".
  using Child = std::pair<std::string, Module*>;
  const std::vector<Child>& children() const { return children_; }  ///< in the order of add()

  /// A parameter of the module itself and its local name. A tied parameter belongs to several
  /// modules.
  using OwnParameter = std::pair<std::string, std::shared_ptr<Parameter>>;
  /// The module's own parameters, in the order of add().
  const std::vector<OwnParameter>& own_parameters() const { return parameters_; }

  /// Returns every parameter of the subtree once. A module's own parameters come before those of
  /// its children, as in PyTorch. It also sets Parameter::name to the path of the parameter's first
  /// place, if this path is longer than the name. So a later call on a submodule changes no name,
  /// unless the parameter is tied and has a longer path there. The name of a sharded parameter
  /// never changes.
  std::vector<Parameter*> named_parameters();

 protected:
  /// Registers a child, in the constructor. It is usually a member, and must live as long as this
  /// module.
  void add(std::string name, Module& child) { children_.emplace_back(std::move(name), &child); }
  /// Registers a parameter, in the constructor. Several modules may register the same one: then it
  /// is tied. @returns the parameter
  std::shared_ptr<Parameter> add(std::string name, std::shared_ptr<Parameter> parameter) {
    return parameters_.emplace_back(std::move(name), std::move(parameter)).second;
  }

  /// For a module that takes or returns several tensors. Its forward has a signature of its own,
  /// and lets this function call the hooks before and after `compute`, which does the work:
  ///
  ///     std::pair<Tensor, Tensor> forward(nn::Tape& tape, Tensor x, Tensor memory, Tensor mask) {
  ///       return hooked_forward(tape, [&] {
  ///         ...  // the children's forward; tape.save({...})
  ///         return std::pair(y, weights);
  ///       });
  ///     }
  ///
  /// FSDP shards such a module like any other. The temporaries of `compute` stay until the module
  /// around it ends, unless `compute` has a Tape::Scope of its own.
  /// @returns the result of `compute`
  /// @throws Error if `recompute` is set: it is for modules of one tensor
  auto hooked_forward(Tape& tape, const auto& compute) {
    NANOFSDP_CHECK(!recompute, .what = "recompute", .expected = "a module of one tensor",
                   .got = "one of several", .hint = "let the modules inside it recompute");
    return bracket(tape, &Hooks::pre_forward, &Hooks::post_forward, compute);
  }
  /// The same for its backward, which restores what the forward has saved.
  auto hooked_backward(Tape& tape, const auto& compute) {
    return bracket(tape, &Hooks::pre_backward, &Hooks::post_backward, compute);
  }

 private:
  //! [bracket]
  auto bracket(Tape& tape, HookList Hooks::*before, HookList Hooks::*after, const auto& compute) {
    const Tape::AtWork at_work(tape, *this);
    (hooks.*before)(tape);
    (innermost.*before)(tape);
    const auto result = compute();
    (innermost.*after)(tape);
    (hooks.*after)(tape);
    return result;
  }
  //! [bracket]

  virtual Tensor do_forward(Tape& tape, Tensor x) = 0;
  virtual Tensor do_backward(Tape& tape, Tensor dy) = 0;

  std::vector<Child> children_;
  std::vector<OwnParameter> parameters_;
};

}  // namespace nanofsdp::nn
