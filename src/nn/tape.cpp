#include "nn/tape.h"

#include <fmt/format.h>

#include "nn/module.h"

namespace nanofsdp::nn {
namespace {

// The path of a module in the tree, "mlp.c_fc". It is empty for the root, and for a module that is
// not in the tree.
std::string path_to(const Module& root, const Module& module) {
  for (const auto& [name, child] : root.children()) {
    if (child == &module) return name;
    if (const std::string path = path_to(*child, module); !path.empty()) return name + "." + path;
  }
  return "";
}

// Requires that the tensor lies in no parameter of the module's tree.
void require_outside(const Module& module, const Tensor& tensor) {
  for (const auto& [name, p] : module.own_parameters())
    NANOFSDP_CHECK(tensor.address() - p->data.address() >= p->data.bytes(), .what = p->name,
                   .expected = "an activation, to save or return", .got = "the parameter itself",
                   .hint = "FSDP frees it: read Parameter::data in backward, or return a copy");
  for (const auto& [name, child] : module.children()) require_outside(*child, tensor);
}

}  // namespace

void Tape::require_ended() const {
  // A training whose backward has restored everything may still lack its end_backward().
  const bool over = !training_ || ends_.empty();
  NANOFSDP_CHECK(over && saved_.empty() && at_work_.empty(), .what = "pass",
                 .expected = "end_backward() after the pass before it",
                 .got = fmt::format("{} saved activations, {} modules at work", tensors_.size(),
                                    at_work_.size()),
                 .hint = "end() gives a pass up");
}

void Tape::begin(bool training, const DropoutKey& key) {
  require_ended();
  end();  // if the last pass was an evaluation, perhaps no call has ended it
  // The size that an evaluation needs is no guide for a training, which needs more.
  if (training && !std::exchange(sized_, true)) arena_.clear();
  training_ = saving_ = training;
  key_ = key;
}

DropoutKey Tape::draw_mask() {
  save({});
  const DropoutKey mask = key_;
  ++key_.site;
  return mask;
}

void Tape::require_activation(const Tensor& tensor) const {
  if (!at_work_.empty() && !arena_.holds(tensor)) require_outside(*at_work_.front(), tensor);
}

void Tape::save(std::initializer_list<Tensor> tensors) {
  if (!saving_) return;
  for (const Tensor& tensor : tensors) require_activation(tensor);
  tensors_.insert(tensors_.end(), tensors);
  saved_.push_back({at_work(), tensors.size(), key_.site});
}

//! [require_own]
void Tape::require_own(std::size_t count) {
  NANOFSDP_CHECK(!saved_.empty(), .what = "backward", .expected = "a saved activation",
                 .got = "none left", .hint = "run forward in training mode first");
  const Saved saved = saved_.back();
  NANOFSDP_CHECK(saved.by == at_work() && saved.count == count,
                 .what = "backward of " + name_of(at_work()),
                 .expected = fmt::format("to restore {} tensors of its own", count),
                 .got = fmt::format("{} that {} saved last", saved.count, name_of(saved.by)),
                 .hint = "backward calls modules, and restores, in the reverse order of forward");
  key_.site = saved.masks;
  saved_.pop_back();
}
//! [require_own]

// The path of a module in the tree of the outermost module at work.
std::string Tape::name_of(const Module* module) const {
  if (module == nullptr) return "no module";
  if (!at_work_.empty() && module == at_work_.front()) return "the outermost module";
  const std::string path = at_work_.empty() ? "" : path_to(*at_work_.front(), *module);
  return path.empty() ? "another module" : path;
}

Tape::~Tape() {
  try {
    if (!ends_.empty()) end();
  } catch (...) {  // the caller has the error that came before
  }
}

void Tape::end_backward() {
  NANOFSDP_CHECK(
      saved_.empty(), .what = "end of backward", .expected = "every saved activation restored",
      .got = fmt::format("{} left", tensors_.size()), .hint = "did every module run backward?");
  end(/*backward=*/true);
}

void Tape::end(bool backward) {
  tensors_.clear();
  saved_.clear();
  cache_ = nullptr;
  std::exception_ptr error;
  for (const auto& end : std::exchange(ends_, {})) {
    try {
      if (const auto callback = end.lock()) (*callback)(backward);
    } catch (...) {  // the others must know, too
      if (!error) error = std::current_exception();
    }
  }
  arena_.reset();
  if (error) std::rethrow_exception(error);
}

}  // namespace nanofsdp::nn
