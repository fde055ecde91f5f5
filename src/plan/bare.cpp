#include "plan/bare.h"

#include <string>

namespace nanofsdp::plan {

struct Bare::Unit final : nn::Module {
  explicit Unit(std::int64_t numel) {
    add("numbers", std::make_shared<nn::Parameter>(Shape{numel}, nn::Init::zeros()));
  }
  Tensor do_forward(nn::Tape&, Tensor x) override { return x; }
  Tensor do_backward(nn::Tape&, Tensor dy) override {
    own_parameters()[0].second->grad();
    return dy;
  }
};

Bare::Bare(const std::vector<std::int64_t>& units, std::int64_t root) {
  add("rest", std::make_shared<nn::Parameter>(Shape{root}, nn::Init::zeros()));
  for (std::size_t i = 0; i < units.size(); ++i) {
    units_.push_back(std::make_unique<Unit>(units[i]));
    add("units." + std::to_string(i), *units_.back());
  }
}

Tensor Bare::do_forward(nn::Tape& tape, Tensor tokens) {
  Tensor x = tape.allocate({tokens.dim(0), tokens.dim(1), 1});
  for (const auto& unit : units_) x = unit->forward(tape, x);
  return x;
}

Tensor Bare::do_backward(nn::Tape& tape, Tensor dy) {
  own_parameters()[0].second->grad();
  for (std::size_t i = units_.size(); i-- > 0;) dy = units_[i]->backward(tape, dy);
  return {};
}

bool is_bare_unit(const nn::Module& module) {
  return dynamic_cast<const Bare::Unit*>(&module) != nullptr;
}

}  // namespace nanofsdp::plan
