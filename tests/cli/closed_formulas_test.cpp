#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cli/plan_options.h"
#include "cli/plan_report.h"
#include "fsdp/layout.h"

// Random plans beside a calculator that was written from the papers and from the headers: shapes of
// models, layouts, memory of each class but activations, operations and bytes of a step. The
// calculator calls nothing of the library but the places of rows in the layout row_aligned, which
// have a test of their own.

namespace nanofsdp::cli::closed_formulas_test {
namespace {

using Size = std::int64_t;

Size ceil_div(Size n, Size by) { return (n + by - 1) / by; }
Size up(Size n, Size multiple) { return ceil_div(n, multiple) * multiple; }

struct Tensor {
  Size rows = 0, columns = 1;
  Size numel() const { return rows * columns; }
};
using Unit = std::vector<Tensor>;

struct Model {
  std::string words{};
  bool llama = true, tied = false, ours = false, bias = true;
  Size layers = 0, width = 0, kv = 0, inner = 0, vocabulary = 0, heads = 0;
};

// The shapes that the models' papers and configurations state.
const std::vector<Model> kModels = {
    {"--model=llama-2-7b", true, false, false, true, 32, 4096, 4096, 11008, 32000, 32},
    {"--model=llama-3-8b", true, false, false, true, 32, 4096, 1024, 14336, 128256, 8},
    {"--model=llama-3-1b", true, true, false, true, 16, 2048, 512, 8192, 128256, 8},
    {"--model=llama-2-34b", true, false, false, true, 48, 8192, 1024, 22016, 32000, 8},
    {"--model=mpt-125m", false, true, false, true, 12, 768, 768, 3072, 50368, 12},
    {"--model=mpt-7b", false, true, false, true, 32, 4096, 4096, 16384, 50368, 32},
    {"--model=gpt2 --kernels=pytorch", false, true, false, true, 12, 768, 768, 3072, 50257, 12},
    {"--model=gpt2-xl", false, true, true, true, 48, 1600, 1600, 6400, 50257, 25},
    {"--n_layer=5 --n_embd=36 --n_head=2 --vocab_size=77 --bias=True", false, true, true, true, 5,
     36, 36, 144, 77, 2},
    {"--n_layer=1 --n_embd=10 --n_head=2 --vocab_size=33 --bias=False", false, true, true, false, 1,
     10, 10, 40, 33, 2}};

// A draw: the options as typed, and what they mean.
struct Draw {
  Model model{};
  std::string typed{}, strategy{}, layout{};
  Size T = 1, F = 1, R = 1, K = 0, M = 1, tokens = 64, prefetch = 1, staying = 0;
  Size param = 4, reduce = 4;  // bytes of an element; a float8 counts 1
  bool gpu = false, no_sync = false;
  std::string recompute{};
};

Draw draw_of(std::mt19937& random) {
  const auto below = [&](Size n) { return static_cast<Size>(random() % static_cast<unsigned>(n)); };
  const auto one_of = [&](std::vector<std::string> all) {
    return all[static_cast<std::size_t>(below(std::ssize(all)))];
  };
  Draw d;
  d.model = kModels[static_cast<std::size_t>(below(std::ssize(kModels)))];
  d.gpu = below(2) == 0;
  if (!d.model.ours) do
      d.T = Size{1} << below(4);
    while (d.model.heads % d.T != 0);
  d.strategy = one_of({"no_shard", "shard_optimizer", "shard_gradients", "full_shard", "full_shard",
                       "shard_grad_op", "hybrid_shard", "hybrid_shard_optimizer"});
  const bool hybrid = d.strategy.starts_with("hybrid");
  d.F = below(4) == 0 ? Size{1} << below(10) : 1 + below(24);
  d.R = hybrid ? 1 + below(5) : 1;
  if (hybrid && d.F * d.R == 1) d.F = 2;
  d.M = 1 + below(3);
  d.layout = one_of({"flat", "per_parameter", "row_aligned"});
  d.prefetch = below(4);
  d.no_sync = below(3) == 0;
  d.recompute = one_of({"none", "selective", "block"});
  const std::string param = one_of({"float32", "bfloat16", "float8_e4m3"}),
                    reduce = one_of({"float32", "bfloat16"});
  d.param = param == "float32" ? 4 : param == "bfloat16" ? 2 : 1;
  d.reduce = reduce == "float32" ? 4 : 2;
  const Size W = d.F * d.R;
  d.typed = fmt::format(
      "{} --device={} --ranks={} --tensor={} --strategy={} --layout={} --param_dtype={} "
      "--reduce_dtype={} --batch_size=1 "
      "--block_size={} --gradient_accumulation_steps={} --forward_prefetch={} --no_sync={} "
      "--recompute={} --backward_prefetch={}",
      d.model.words, d.gpu ? "cuda" : "cpu", W * d.T, d.T, d.strategy, d.layout, param, reduce,
      d.tokens, d.M * W, d.prefetch, d.no_sync ? "True" : "False", d.recompute,
      one_of({"none", "pre", "post"}));
  if (hybrid) d.typed += fmt::format(" --shard_size={}", d.F);
  const bool reshards = d.strategy == "full_shard" || hybrid;
  if (reshards && W > 1 && below(3) == 0) {
    d.staying = 1 + below(d.model.layers);
    d.typed += fmt::format(" --unsharded_blocks={}", d.staying);
  } else if (d.strategy == "full_shard" && d.F > 2 && below(3) == 0) {
    for (d.K = 2 + below(d.F - 1); d.F % d.K != 0;) ++d.K;
    d.typed += fmt::format(" --reshard_after_forward={}", d.K);
  }
  // Groups of one rank, and one group of all ranks, are other strategies.
  if (hybrid && d.R == 1) d.strategy = "full_shard";
  if (hybrid && d.F == 1) {
    d.strategy = d.strategy == "hybrid_shard" ? "no_shard" : "shard_optimizer";
    d.F = W, d.R = 1, d.staying = 0;
  }
  if (W == 1) d.strategy = "no_shard";
  return d;
}

// The parameters of a rank's part of the model (Megatron-LM): matrices are divided, norms are not.
std::vector<Unit> units_of(const Draw& d) {
  const Model& m = d.model;
  const Size C = m.width, D = C / d.T, K = m.kv / d.T, I = m.inner / d.T,
             V = ceil_div(m.vocabulary, d.T);
  Unit block, root;
  if (m.llama) {
    block = {{C}, {C}, {D, C}, {K, C}, {K, C}, {C, D}, {I, C}, {I, C}, {C, I}};
    root = {{V, C}, {C}};
    if (!m.tied) root.push_back({V, C});
  } else if (m.ours && !m.bias) {
    block = {{C}, {3 * C, C}, {C, C}, {C}, {I, C}, {C, I}};
    root = {{V, C}, {d.tokens, C}, {C}};
  } else if (m.ours) {
    block = {{C}, {C}, {3 * C, C}, {3 * C}, {C, C}, {C}, {C}, {C}, {I, C}, {I}, {C, I}, {C}};
    root = {{V, C}, {m.words.starts_with("--model") ? 1024 : d.tokens, C}, {C}, {C}};
  } else {
    block = {{C}, {C}, {3 * D, C}, {3 * D}, {C, D}, {C}, {I, C}, {I}, {C, I}, {C}, {2 * C}};
    root = {{V, C}, {d.tokens, C}, {C}, {C}};
  }
  std::vector<Unit> units(static_cast<std::size_t>(m.layers), block);
  units.push_back(root);
  return units;
}

// The elements of a unit: of its parameters, of a shard, and of the whole with padding.
struct Sizes {
  Size numel = 0, shard = 0, whole = 0;
};

Sizes sizes_of(const Unit& unit, const Draw& d, Size shards, Size alignment) {
  Size end = 0, chunks = 0, numel = 0;
  std::vector<fsdp::ParameterSpec> specs;
  for (const Tensor& t : unit) {
    numel += t.numel();
    end = up(end, alignment) + t.numel();
    chunks = up(chunks, alignment) + ceil_div(t.rows, shards) * t.columns;
    specs.push_back({"", t.columns == 1 ? Shape{t.rows} : Shape{t.rows, t.columns}});
  }
  Size shard = up(ceil_div(end, shards), alignment);
  if (d.layout == "row_aligned")
    shard = fsdp::Layout(specs, static_cast<int>(shards), alignment, fsdp::LayoutKind::row_aligned)
                .shard_numel();
  const Size whole = shard * shards;
  if (d.layout == "per_parameter") shard = up(chunks, alignment);
  return {numel, shard, whole};
}

using Counts = std::map<std::string, Size>;

Counts expected(const Draw& d) {
  const bool hybrid = d.strategy.starts_with("hybrid"),
             splits = d.strategy == "hybrid_shard_optimizer",
             sharded = d.strategy == "full_shard" || d.strategy == "shard_grad_op" || hybrid,
             none = d.strategy == "no_shard",
             gradients = sharded || d.strategy == "shard_gradients";
  const Size computed = d.gpu && d.param < 4 ? 2 : 4;  // bytes of a parameter that is in use
  // Parameters begin at 16 bytes of that. Replicas divide a shard into equal parts.
  const Size parts = splits ? d.R : 1, shards = d.F * parts, M = d.M;
  const Size alignment = std::lcm(16 / computed, d.R / parts);
  const bool copies = d.layout == "per_parameter" && !none,
             borrows = sharded || copies || d.param < 4;
  const bool keeps_shards = sharded || (borrows && !none);
  // The bytes of a row in which each rank has a shard: a float8 has 4 bytes more for each 128.
  const auto row_bytes = [&](const Sizes& s) {
    const Size row = copies ? s.shard * shards : s.whole;
    if (d.param > 1) return row * d.param;
    const Size each = row / shards;
    return shards * (up(each, 4) + 4 * ceil_div(each, 128));
  };
  Counts c;
  const std::vector<Unit> units = units_of(d);
  Size largest = 0, largest_gradient = 0, blocks_whole = 0, gathered_wire = 0, reduced_wire = 0;
  for (const Unit& unit : units) {
    const bool root = &unit == &units.back();
    const Size place = &unit - units.data();
    const Sizes s = sizes_of(unit, d, shards, alignment);
    const Size of_rank = parts * s.shard;  // elements of parameters that the rank stores
    c["parameters"] += s.numel;
    c["parameter shards"] += 4 * (keeps_shards ? of_rank : s.whole);
    c["gradient shards"] += 4 * (gradients || copies ? of_rank : s.whole);
    c["optimizer"] += 8 * (none ? s.whole : s.shard);
    const Size gradient = std::max(s.whole, of_rank);
    if (root) {
      Size slots = d.model.layers;
      const Size turns = 1 + std::max<Size>(1, d.prefetch);
      if (sharded && d.strategy != "shard_grad_op") slots = std::min(slots, d.staying + turns);
      if (borrows) c["unsharded parameters"] = computed * (slots * largest + s.whole);
      if (d.K > 0 && d.K < d.F) c["unsharded parameters"] += computed * blocks_whole / d.K;
      const Size waiting =
          (d.no_sync && d.M > 1) || !gradients ? d.model.layers : std::min<Size>(d.model.layers, 2);
      if (gradients || copies)
        c["unsharded gradients"] = 4 * (waiting * largest_gradient + gradient);
    }
    largest = std::max(largest, s.whole), largest_gradient = std::max(largest_gradient, gradient);
    blocks_whole += s.whole;
    if (d.param != computed || copies) gathered_wire = std::max(gathered_wire, row_bytes(s));
    if (d.reduce < 4 || copies)
      reduced_wire = std::max(reduced_wire, d.reduce * (copies ? s.shard * shards : s.whole));
    if (d.F * d.R == 1) continue;
    const bool stays = root || place >= d.model.layers - d.staying || d.strategy == "shard_grad_op";
    Size gathers = none ? 0 : 1, near = 0;
    if (sharded) gathers = !stays ? 2 * M : d.strategy == "shard_grad_op" && d.no_sync ? 1 : M;
    if (d.K > 0 && d.K < d.F && !stays) near = M, gathers = M;
    const Size reductions = gradients && !d.no_sync ? M : 1;
    c["all_gathers"] += gathers + near;
    c["bytes_sent"] += gathers * (row_bytes(s) / d.F) * (d.F - 1);
    if (near > 0)
      c["bytes_sent"] += near * (s.whole / d.K) * (d.K - 1) * (d.param == 1 ? computed : d.param);
    const Size chunk = (copies ? s.shard * shards : s.whole) / d.F;
    c[none ? "all_reduces" : "reduce_scatters"] += reductions;
    c["bytes_sent"] += reductions * (d.F - 1) * chunk * (none ? d.reduce + 4 : d.reduce);
    if (splits && d.R > 1) ++c["reduce_scatters"], ++c["all_gathers"];
    if (hybrid && !splits && d.R > 1) ++c["all_reduces"];
    // PyTorch sums across groups in reduce_dtype, and this library in float32.
    const Size across = hybrid && !splits && !d.model.ours ? d.reduce : 4;
    if (hybrid) c["bytes_across"] += 2 * (d.R - 1) * (chunk / d.R) * across;
  }
  c["bytes_sent"] += c["bytes_across"];
  // A block adds up its two outputs and the gradients of its two inputs. Work that is done again
  // adds up, too: two all-gathers are one all-reduce, and block recompute needs no sum at its end.
  if (d.T > 1) {
    const Size again = d.recompute == "none" ? 0 : d.recompute == "selective" ? 1 : 2;
    const Size halves =
        2 * (4 * d.model.layers + 2) + d.model.layers * (again == 2 ? 3 : 2 * again);
    c["all_reduces"] += M * ((4 + again) * d.model.layers + 2);
    c["bytes_sent"] += M * halves * (d.T - 1) * (d.tokens * d.model.width / d.T) * computed;
  }
  return c;
}

void expect_equal(const Draw& d) {
  const PlanOptions o = parse_plan_options(plan::words_in(d.typed));
  const auto json = json_of(o, plan_of(o));
  Counts counts = expected(d);
  for (const char* name : {"parameters", "all_gathers", "reduce_scatters", "all_reduces",
                           "bytes_sent", "bytes_across"})
    EXPECT_EQ(json[name], counts[name]) << name << "\n" << d.typed;
  for (const char* name : {"parameter shards", "gradient shards", "optimizer",
                           "unsharded parameters", "unsharded gradients"})
    EXPECT_EQ(json["bytes"][name], counts[name]) << name << "\n" << d.typed;
}

void expect_equal(unsigned seed, int plans) {
  std::mt19937 random(seed);
  for (int i = 0; i < plans && !::testing::Test::HasFailure(); ++i) expect_equal(draw_of(random));
}

TEST(ClosedFormulas, AreThoseOfRandomPlans) { expect_equal(2026, 60); }

TEST(ClosedFormulas, LongOfTwoThousandRandomPlans) { expect_equal(1, 2000); }

}  // namespace
}  // namespace nanofsdp::cli::closed_formulas_test
