#include "nn/tape.h"

#include <fmt/format.h>

#include "base/check.h"

namespace nanofsdp::nn {

void Tape::begin(bool training, const DropoutKey& key) {
  NANOFSDP_CHECK(saved_.empty(), .what = "forward pass",
                 .expected = "the pass before it to have ended",
                 .got = fmt::format("{} saved activations", saved_.size()));
  training_ = saving_ = training;
  cache_ = nullptr;
  key_ = key;
}

void Tape::begin_decoding(KeyValueCache& cache) {
  begin(/*training=*/false);
  cache_ = &cache;
}

DropoutKey Tape::dropout_key(int site) const {
  DropoutKey key = key_;
  key.site = site;
  return key;
}

void Tape::save(std::initializer_list<Tensor> tensors) {
  if (saving_) saved_.insert(saved_.end(), tensors);
}

Tensor Tape::pop() {
  NANOFSDP_CHECK(!saved_.empty(), .what = "backward", .expected = "a saved activation",
                 .got = "none left", .hint = "run forward in training mode first");
  const Tensor tensor = saved_.back();
  saved_.pop_back();
  return tensor;
}

//! [uses]
void Tape::use(Parameter& parameter) {
  if (!saving_ || !parameter.requires_grad) return;
  if (parameter.pending_uses++ == 0) used_.push_back(&parameter);
}

void Tape::accumulated(Parameter& parameter) {
  if (!parameter.requires_grad) return;
  NANOFSDP_CHECK(parameter.pending_uses > 0, .what = "gradient of " + parameter.name,
                 .expected = "one part for each use in forward", .got = "one more");
  if (--parameter.pending_uses == 0 && parameter.post_accumulate_grad) {
    parameter.post_accumulate_grad();
  }
}
//! [uses]

void Tape::end_backward() {
  NANOFSDP_CHECK(saved_.empty(), .what = "end of backward",
                 .expected = "every saved activation restored",
                 .got = fmt::format("{} left", saved_.size()));
  if (backward_end_) backward_end_();
  end();
}

void Tape::end() {
  saved_.clear();
  for (Parameter* parameter : used_) parameter->pending_uses = 0;
  used_.clear();
  arena_.reset();
}

}  // namespace nanofsdp::nn
