#include "fsdp/wrap.h"

#include <map>
#include <set>

#include "base/check.h"

namespace nanofsdp::fsdp {
namespace {

class Wrapper {
 public:
  explicit Wrapper(const WrapPolicy& policy) : policy_(policy) {}

  // Gives the unit every parameter below `module` but those of inner units, which come out first.
  void visit(nn::Module& module, const std::string& path, WrappedModule& unit) {
    for (const auto& [name, parameter] : module.own_parameters()) take(*parameter, unit);
    for (const auto& [name, child] : module.children()) {
      const std::string child_path = path.empty() ? name : path + "." + name;
      if (!policy_ || !policy_(*child)) {
        visit(*child, child_path, unit);
        continue;
      }
      if (!wrapped_.insert(child).second) continue;  // the tree has it under two names
      WrappedModule inner{
          .module = child, .name = child_path, .depth = unit.depth + 1, .entered = ++entered_};
      visit(*child, child_path, inner);
      units.push_back(std::move(inner));
    }
  }

  std::vector<WrappedModule> units;

 private:
  void take(nn::Parameter& parameter, WrappedModule& unit) {
    const auto [known, is_new] = owner_.emplace(&parameter, unit.name);
    if (is_new) return unit.parameters.push_back(&parameter);
    NANOFSDP_CHECK(known->second == unit.name, .what = "tied parameter " + parameter.name,
                   .expected = "all its uses in one FSDP unit",
                   .got = "uses in '" + known->second + "' and '" + unit.name + "'",
                   .hint = "leave both modules to the root unit");
  }

  const WrapPolicy& policy_;
  int entered_ = 0;
  std::set<const nn::Module*> wrapped_;
  std::map<nn::Parameter*, std::string> owner_;
};

}  // namespace

std::vector<WrappedModule> wrap(nn::Module& root, const WrapPolicy& policy) {
  root.named_parameters();  // for the names
  Wrapper wrapper(policy);
  WrappedModule outer{.module = &root, .name = "root"};
  wrapper.visit(root, "", outer);
  wrapper.units.push_back(std::move(outer));
  return std::move(wrapper.units);
}

}  // namespace nanofsdp::fsdp
