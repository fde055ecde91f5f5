#include "fsdp/wrap.h"

#include <algorithm>
#include <map>
#include <set>

namespace nanofsdp::fsdp {
namespace {

struct Wrapper {
  // Makes the module a unit, or a part of the unit of its group. Inner units are added to `units`
  // before the outer one.
  void add(nn::Module& module, const std::string& path, const UnitOptions& options, int depth) {
    const bool alone = options.group.empty();
    const std::string name = !alone ? options.group : path.empty() ? "root" : path;
    const auto same = alone ? units.end() : find(name);
    WrappedModule unit = same == units.end() ? WrappedModule{&module, name, {}, 0, ++last, options}
                                             : std::move(*same);
    if (same != units.end()) units.erase(same);
    unit.depth = std::max(unit.depth, depth);
    unit.modules.push_back(&module);
    visit(module, path, unit);
    NANOFSDP_CHECK(alone || (find(name) == units.end() && unit.options == options),
                   .what = "group " + name,
                   .expected = "modules with equal options, none inside another",
                   .got = "other options, or another module, at " + path);
    units.push_back(std::move(unit));
  }

  // Gives the unit every parameter below `module`, except the parameters of inner units.
  void visit(nn::Module& module, const std::string& path, WrappedModule& unit) {
    const std::string prefix = path.empty() ? "" : path + ".";
    for (const auto& [name, p] : module.own_parameters()) take(*p, prefix + name, unit);
    for (const auto& [name, child] : module.children()) {
      const std::string child_path = prefix + name;
      const UnitOptions options = policy ? policy(*child) : false;
      if (!options.is_unit) {
        visit(*child, child_path, unit);
      } else if (wrapped.insert(child).second) {  // false if the tree has it under two names
        add(*child, child_path, options, unit.depth + 1);
      }
    }
  }

  std::vector<WrappedModule>::iterator find(const std::string& name) {
    return std::ranges::find(units, name, &WrappedModule::name);
  }

  void take(nn::Parameter& parameter, const std::string& path, WrappedModule& unit) {
    const auto [known, is_new] = owner.try_emplace(&parameter, unit.forward_index, unit.name);
    if (is_new && !parameter.sharded) parameter.name = path;
    if (is_new) return unit.parameters.push_back(&parameter);
    NANOFSDP_CHECK(known->second.first == unit.forward_index,
                   .what = "tied parameter " + parameter.name,
                   .expected = "all its uses in one FSDP unit",
                   .got = "uses in '" + known->second.second + "' and '" + unit.name + "'",
                   .hint = "leave both modules to the root unit, or give them one group");
  }

  const WrapPolicy& policy;
  std::vector<WrappedModule> units{};
  int last = -1;  // the forward index of the unit that the visit has reached last
  std::set<const nn::Module*> wrapped{};
  std::map<nn::Parameter*, std::pair<int, std::string>> owner{};  // units may have equal names
};

}  // namespace

std::vector<WrappedModule> wrap(nn::Module& root, const WrapPolicy& policy) {
  Wrapper wrapper{policy};
  const UnitOptions options = policy ? policy(root) : true;
  wrapper.add(root, "", options.is_unit ? options : true, /*depth=*/0);
  return std::move(wrapper.units);
}

}  // namespace nanofsdp::fsdp
