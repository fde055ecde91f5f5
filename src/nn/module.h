#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "nn/parameter.h"
#include "nn/tape.h"

namespace nanofsdp::nn {

/// @file
/// @brief The room `nn`: what models are made of. A module has parameters, children, forward,
/// backward, and four points where others hook in.
///
/// Comes in: tensors of activations, and whatever the parameters show at that moment. Goes out:
/// activations, gradients, and on the tape (tape.h) what backward needs of forward.
///
/// As PyTorch's nn.Module, with backward written out instead of recorded. The public forward and
/// backward call the hooks around the module's own; that is all FSDP needs of a model.

/// The functions that a module calls at one point, in the order in which they were added. Each gets
/// the tape of the pass. A hook may add and remove hooks: its point calls those of before.
class HookList {
 public:
  using Hook = std::function<void(Tape&)>;  ///< one function
  HookList() = default;
  /// A list of one hook: `module.hooks.pre_forward = f` replaces the list.
  template <std::invocable<Tape&> F>
  HookList(F hook) : hooks_{{0, std::move(hook)}} {}

  /// @returns a handle for remove(), which no other hook of this list ever gets
  int add(Hook hook) { return hooks_.emplace(++last_, std::move(hook)).first->first; }
  void remove(int handle) { hooks_.erase(handle); }  ///< does nothing if it is removed already
  explicit operator bool() const { return !hooks_.empty(); }  ///< whether there is a hook

  /// Calls them.
  void operator()(Tape& tape) const {
    for (const auto& [handle, hook] : std::map(hooks_)) hook(tape);
  }

 private:
  std::map<int, Hook> hooks_;
  int last_ = 0;  // handle
};

/// The base of every layer and every model. A module of your own registers its parameters and
/// children in its constructor, and has two functions. What touches elements is work for the
/// stream: then the module also runs on a simulated device, which has no elements (this one
/// computes on the CPU):
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
/// A module with children only calls theirs: Block in gpt/block.h is one.
class Module {
 public:
  virtual ~Module() = default;
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// What is called around forward and backward.
  struct Hooks {
    HookList pre_forward{};    ///< before the module's own forward
    HookList post_forward{};   ///< after it
    HookList pre_backward{};   ///< before the module's own backward
    HookList post_backward{};  ///< after it
  };
  Hooks hooks;  ///< the user's, before or after the module is sharded
  /// The hooks of FSDP, which gathers and frees the parameters. They run inside the user's: a
  /// user's hooks see the module's parameters before they are gathered and after they are freed.
  Hooks innermost;

  /// Keep only the input of forward; backward runs forward again first, with the hooks of modules
  /// inside but not its own (activation recompute, or checkpointing: Chen et al. 2016, arXiv
  /// 1604.06174).
  bool recompute = false;

  /// The module's output. The tensor lives on the tape.
  /// @throws ShapeError where an input does not fit a layer; and what hooks throw
  Tensor forward(Tape& tape, Tensor x);

  /// The gradient of the input, from that of the output; parameters' gradients are added to.
  /// Modules run backward in the reverse order of forward. A module that writes over dy says so.
  /// @param dy of the output's shape
  /// @returns of the input's shape; empty if the input has no gradient
  /// @throws Error naming both modules, if the order is another than the reverse
  Tensor backward(Tape& tape, Tensor dy);

  /// A child and its local name, which is one part of a path: "attn" of "h.0.attn".
  using Child = std::pair<std::string, Module*>;
  const std::vector<Child>& children() const { return children_; }  ///< in the order of add()

  /// The module's own parameters, under their local names. A tied one appears in each owner.
  using OwnParameter = std::pair<std::string, std::shared_ptr<Parameter>>;
  /// In the order of add().
  const std::vector<OwnParameter>& own_parameters() const { return parameters_; }

  /// Every parameter of the subtree once, a module's own before its children's (PyTorch's order).
  /// Parameter::name is the path to its first appearance, from the outermost module of which this
  /// was asked. Asking a submodule renames nothing. Nothing renames a parameter that is sharded.
  std::vector<Parameter*> named_parameters();

 protected:
  /// For constructors: registers a child, usually a member. It lives as long as this module.
  void add(std::string name, Module& child) { children_.emplace_back(std::move(name), &child); }
  /// For constructors: registers a parameter. Several modules may register one (a tied weight).
  void add(std::string name, std::shared_ptr<Parameter> parameter) {
    parameters_.emplace_back(std::move(name), std::move(parameter));
  }

 private:
  virtual Tensor do_forward(Tape& tape, Tensor x) = 0;
  virtual Tensor do_backward(Tape& tape, Tensor dy) = 0;

  std::vector<Child> children_;
  std::vector<OwnParameter> parameters_;
};

}  // namespace nanofsdp::nn
