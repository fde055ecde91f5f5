#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fsdp/options.h"

namespace nanofsdp::testing {

/// @file
/// @brief Configurations of a training. Each pair of settings occurs in at least one of them.

/// The options of a training.
struct Configuration {
  std::string name{};  ///< those settings that are not the first of their factors
  fsdp::Options options{};
  int ranks = 1;
  int shard_size = 0;
  int post_forward_size = 0;
  int threads = 1;                    ///< threads of a rank
  std::vector<std::int64_t> rows{2};  ///< rows of each micro-step; odd ranks have one more
  std::int64_t batch_rows = 0;        ///< rows for which there is memory; 0: the most of `rows`
  bool recompute = false;
  bool dropout = false;
  bool frozen = false;  ///< whether a part of the model is frozen
};

/// A setting: its name, and a function that changes a configuration.
using Setting = std::pair<std::string, std::function<void(Configuration&)>>;
/// A list of settings. A configuration has one of them.
using Factor = std::vector<Setting>;

/// The factors of every model. Strategies and ranks come first.
inline std::vector<Factor> factors_of_any_model() {
  using C = Configuration;
  using Rows = std::vector<std::int64_t>;
  Factor strategies, ranks, ahead;
  for (const fsdp::Sharding& s : fsdp::kShardings) {
    for (const int groups_of : s.replicates ? std::vector{2, 3} : std::vector{0}) {
      const std::string name(s.name), by = groups_of > 0 ? std::to_string(groups_of) : "";
      strategies.push_back({name + by, [&s, groups_of](C& c) {
                              c.options.strategy = s.strategy;
                              c.shard_size = groups_of;
                            }});
    }
  }
  for (int W = 1; W <= 6; ++W) {
    ranks.push_back({"W" + std::to_string(W), [W](C& c) { c.ranks = W; }});
  }
  for (int units = 0; units <= 3; ++units) {
    ahead.push_back(
        {"ahead" + std::to_string(units), [units](C& c) { c.options.forward_prefetch = units; }});
  }
  const auto prefetch = [](fsdp::BackwardPrefetch p) {
    return [p](C& c) { c.options.backward_prefetch = p; };
  };
  const auto precision = [](DType param, DType reduce) {
    return [=](C& c) { c.options.precision = {param, reduce}; };
  };
  const auto micro_steps = [](const Rows& rows, std::int64_t batch_rows) {
    return [=](C& c) { c.rows = rows, c.batch_rows = batch_rows; };
  };
  using enum fsdp::BackwardPrefetch;
  using enum DType;
  return {strategies,
          ranks,
          ahead,
          {{"pre", prefetch(pre)}, {"none", prefetch(none)}, {"post", prefetch(post)}},
          {{"float32", precision(float32, float32)},
           {"param16", precision(bfloat16, float32)},
           {"reduce16", precision(float32, bfloat16)},
           {"both16", precision(bfloat16, bfloat16)},
           {"param8", precision(float8_e4m3, float32)}},
          {{"micro1", micro_steps({2}, 0)},
           {"micro2", micro_steps({1, 3}, 5)},
           {"micro3", micro_steps({2, 1, 3}, 0)}},
          {{"flat", [](C&) {}},
           {"per_parameter", [](C& c) { c.options.layout = fsdp::LayoutKind::per_parameter; }},
           {"row_aligned", [](C& c) { c.options.layout = fsdp::LayoutKind::row_aligned; }}},
          {{"far", [](C&) {}}, {"near2", [](C& c) { c.post_forward_size = 2; }}},
          {{"align4", [](C&) {}}, {"align1", [](C& c) { c.options.alignment = 1; }}},
          {{"pool", [](C&) {}}, {"slots", [](C& c) { c.options.pool = false; }}},
          {{"sync", [](C&) {}}, {"no_sync", [](C& c) { c.options.no_sync = true; }}},
          {{"clean", [](C&) {}}, {"poison", [](C& c) { c.options.poison = true; }}},
          {{"saved", [](C&) {}}, {"recompute", [](C& c) { c.recompute = true; }}},
          {{"thread1", [](C&) {}}, {"threads2", [](C& c) { c.threads = 2; }}}};
}

/// Combinations of settings, by their numbers, one for each factor. First comes each strategy on
/// its own, on 4 ranks. Then come combinations until each pair of settings has occurred. The search
/// is greedy: a row starts with a missing pair, and every other factor takes the setting with the
/// most missing pairs. If several settings are equal, it takes any of them.
inline std::vector<std::vector<std::size_t>> pairwise(const std::vector<Factor>& factors) {
  using Choice = std::pair<std::size_t, std::size_t>;  // a factor and its setting
  std::vector<Choice> settings;                        // the settings of all factors
  std::vector<std::size_t> first(factors.size());      // number of a factor's first setting
  for (std::size_t f = 0; f < factors.size(); ++f) {
    first[f] = settings.size();
    for (std::size_t i = 0; i < factors[f].size(); ++i) settings.push_back({f, i});
  }
  const std::size_t n = settings.size();
  // Whether a pair of settings is missing. The one with the smaller factor comes first.
  std::vector<char> missing(n * n, 0);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b) {
      if (settings[a].first != settings[b].first) missing[a * n + b] = 1;
    }
  }
  const auto is_missing = [&](const Choice& x, const Choice& y) -> char& {
    const std::size_t a = first[x.first] + x.second, b = first[y.first] + y.second;
    return missing[std::min(a, b) * n + std::max(a, b)];
  };
  std::vector<std::vector<std::size_t>> rows;
  const auto take = [&](const std::vector<Choice>& chosen) {
    std::vector<std::size_t>& row = rows.emplace_back(factors.size());
    for (const auto& [f, setting] : chosen) row[f] = setting;
    for (std::size_t f = 0; f < row.size(); ++f) {
      for (std::size_t g = f + 1; g < row.size(); ++g) is_missing({f, row[f]}, {g, row[g]}) = 0;
    }
  };
  for (std::size_t i = 0; i < factors[0].size(); ++i) take({{0, i}, {1, 3}});
  std::minstd_rand random;  // it gives the same numbers everywhere
  for (std::size_t pair = 0; pair < n * n; ++pair) {
    if (missing[pair] == 0) continue;
    std::vector<Choice> chosen{settings[pair / n], settings[pair % n]};
    const auto gain = [&](const Choice& choice) {
      return std::ranges::count_if(
          chosen, [&](const Choice& other) { return is_missing(choice, other) != 0; });
    };
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (f == chosen[0].first || f == chosen[1].first) continue;
      Choice best{f, random() % factors[f].size()};
      for (std::size_t i = 0; i < factors[f].size(); ++i) {
        if (gain({f, i}) > gain(best)) best = {f, i};
      }
      chosen.push_back(best);
    }
    take(chosen);
  }
  return rows;
}

/// One configuration for each row of pairwise().
inline std::vector<Configuration> configurations(const std::vector<Factor>& factors) {
  std::vector<Configuration> all;
  for (const auto& row : pairwise(factors)) {
    Configuration& c = all.emplace_back();
    for (std::size_t f = 0; f < factors.size(); ++f) {
      const auto& [name, change] = factors[f][row[f]];
      change(c);
      if (f < 2 || row[f] > 0) c.name += (f == 0 ? "" : "_") + name;
    }
    if (c.shard_size > 0 && c.ranks % c.shard_size != 0) c.shard_size = 0;
    const int group = c.shard_size > 0 ? c.shard_size : c.ranks;
    const bool reshards = c.options.sharding().reshards_after_forward;
    if (!reshards || group % 2 != 0) c.post_forward_size = 0;
  }
  return all;
}

}  // namespace nanofsdp::testing
