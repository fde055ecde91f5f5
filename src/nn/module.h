#pragma once

#include <functional>
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
class Module {
 public:
  virtual ~Module() = default;
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Called around forward and backward, with the tape of the pass. One owner: setting a hook that
  /// is set is an error of the setter's.
  struct Hooks {
    std::function<void(Tape&)> pre_forward;
    std::function<void(Tape&)> post_forward;
    std::function<void(Tape&)> pre_backward;
    std::function<void(Tape&)> post_backward;
  };
  Hooks hooks;

  /// Keep only the input of forward; backward runs forward again first, with the hooks of modules
  /// inside but not its own (activation recompute, or checkpointing: Chen et al. 2016, arXiv
  /// 1604.06174).
  bool recompute = false;

  /// The module's output. The tensor lives on the tape.
  Tensor forward(Tape& tape, Tensor x);

  /// The gradient of the input, from that of the output; parameters' gradients are added to.
  /// Modules run backward in the reverse order of forward. A module that writes over dy says so.
  Tensor backward(Tape& tape, Tensor dy);

  using Child = std::pair<std::string, Module*>;
  const std::vector<Child>& children() const { return children_; }

  /// The module's own parameters, under their local names. A tied one appears in each owner.
  using OwnParameter = std::pair<std::string, std::shared_ptr<Parameter>>;
  const std::vector<OwnParameter>& own_parameters() const { return parameters_; }

  /// Every parameter of the subtree once, a module's own before its children's (PyTorch's order),
  /// named at its first appearance. Sets Parameter::name to the path from this module.
  std::vector<Parameter*> named_parameters();

 protected:
  void add(std::string name, Module& child) { children_.emplace_back(std::move(name), &child); }
  void add(std::string name, std::shared_ptr<Parameter> parameter) {
    parameters_.emplace_back(std::move(name), std::move(parameter));
  }

 private:
  virtual Tensor do_forward(Tape& tape, Tensor x) = 0;
  virtual Tensor do_backward(Tape& tape, Tensor dy) = 0;
  Tensor forward_unsaved(Tape& tape, Tensor x);
  Tensor backward_again(Tape& tape, Tensor dy);

  std::vector<Child> children_;
  std::vector<OwnParameter> parameters_;
};

}  // namespace nanofsdp::nn
