#include <algorithm>
#include <array>
#include <cmath>

#include "mystery.h"
#include "run.h"

// Mysteries 7 to 10 are about runs that train, but not as they should.

namespace lesson::mystery {
namespace {

// The first half of the rows' tokens count. On the last rank only a sixteenth counts.
Rows unequal_rows(std::int64_t first, std::int64_t count, int W) {
  Rows rows(small(), first, count);
  const auto rows_of_a_rank = 2;
  for (std::int64_t i = 0; i < count * rows.T; ++i) {
    const bool is_last = (first + i / rows.T) / rows_of_a_rank % W == W - 1;
    if (i % rows.T >= rows.T / (is_last ? 16 : 1)) rows.targets[static_cast<std::size_t>(i)] = -1;
  }
  return rows;
}

double counted(const Rows& rows) {
  return static_cast<double>(
      std::ranges::count_if(rows.targets, [](std::int32_t target) { return target >= 0; }));
}

std::string unequal_tokens() {
  constexpr int kRanks = 3;
  Table table;
  std::array<float, 2> norms{};
  for (const int W : {1, kRanks}) {
    comm::launch_threads(W, 1, [&](Context& context, auto world) {
      Rank rank(context, std::move(world), small(), {.wrap_policy = is_block});
      const std::int64_t count = 2 * kRanks / W;
      const Rows rows = unequal_rows(context.rank * count, count, kRanks);
      rank.sharded.zero_grad();
      rank.pass(rows, counted(rows));  // the mean over the rank's tokens, averaged over ranks
      rank.sharded.clip(0);
      if (context.rank == 0) norms[W == 1 ? 0 : 1] = *rank.sharded.grad_norm().f32();
      if (W == 1) return;
      table.put("rows", context.rank, fmt::format("{}", count));
      table.put("tokens that count", context.rank, fmt::format("{:.0f}", counted(rows)));
    });
  }
  return table.text("3 ranks", {"rank 0", "rank 1", "rank 2"}, table.order()) +
         fmt::format("gradient norm of these rows: one process {:.4f}, 3 ranks {:.4f}\n", norms[0],
                     norms[1]);
}

std::string norm_of_a_shard() {
  Table table;
  std::string losses = "loss of step 30:";
  for (const int W : {1, 2, 4}) {
    double last = 0;
    comm::launch_threads(W, 1, [&](Context& context, auto world) {
      Rank rank(context, std::move(world), small(2), {.wrap_policy = is_block});
      Descent optimizer(context, rank.sharded.units(), nullptr);
      const std::int64_t count = 4 / W;
      for (int step = 0; step < 30; ++step) {
        rank.sharded.zero_grad();
        const double loss =
            rank.forward_backward(context.rank * count, count, 32.0 * static_cast<double>(count));
        double squares = 0;  // this is the user's code
        for (fsdp::Unit& unit : rank.sharded.units()) {
          for (const float g : unit.rows().front().gradient_shard().template span<float>()) {
            squares += double{g} * g;
          }
        }
        float coefficient = static_cast<float>(std::min(1.0, 0.1 / std::sqrt(squares)));
        optimizer.step(1, Tensor(&coefficient, {1}));
        if (context.rank == 0) last = loss / (32.0 * static_cast<double>(count));
        if (W == 4 && step == 0) {
          table.put("norm that rank computes", context.rank,
                    fmt::format("{:.4f}", std::sqrt(squares)));
          table.put("it multiplies gradients by", context.rank, fmt::format("{:.4f}", coefficient));
        }
      }
    });
    losses += fmt::format("  {} rank{} {:.3f}", W, W == 1 ? "" : "s", last);
  }
  return losses + "\n" +
         table.text("4 ranks, step 1", {"rank 0", "rank 1", "rank 2", "rank 3"}, table.order());
}

// Puts the numbers of elements of each unit's shard that a step has changed, rank by rank, and the
// numbers of all elements.
void put_changes(Table& table, Rank& rank, const std::vector<std::vector<float>>& before) {
  std::size_t u = 0;
  for (fsdp::Unit& unit : rank.sharded.units()) {
    const std::vector<float> now = Rank::shard(unit);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < now.size(); ++i) changed += now[i] != before[u][i];
    table.put(short_name(unit.name()), rank.context.rank,
              fmt::format("{} of {}", changed, now.size()));
    ++u;
  }
}

std::vector<std::vector<float>> shards(Rank& rank) {
  std::vector<std::vector<float>> all;
  for (fsdp::Unit& unit : rank.sharded.units()) all.push_back(Rank::shard(unit));
  return all;
}

std::string rounded_master() {
  Table table, norms;
  comm::launch_threads(2, 1, [&](Context& context, auto world) {
    Rank rank(context, std::move(world), small(3), {.wrap_policy = is_block});
    Descent optimizer(context, rank.sharded.units(), nullptr);
    for (int step = 0; step < 4; ++step) {
      const auto before = shards(rank);
      rank.sharded.zero_grad();
      rank.forward_backward(2 * context.rank, 2, 64);
      optimizer.step(1e-3);
      for (fsdp::Unit& unit : rank.sharded.units()) {
        if (!unit.name().ends_with("h.1")) continue;  // this is the user's code, to save memory
        for (float& x : unit.rows().front().parameter_shard().template span<float>()) {
          x = to_float32(to_bfloat16(x));
        }
      }
      if (step < 3) continue;
      put_changes(table, rank, before);
      for (fsdp::Unit& unit : rank.sharded.units()) {
        double squares = 0;
        for (const float g : unit.rows().front().gradient_shard().template span<float>())
          squares += g * g;
        norms.put(short_name(unit.name()), context.rank, fmt::format("{:.4f}", std::sqrt(squares)));
      }
    }
  });
  return table.text("weights that step 4 has changed", {"rank 0", "rank 1"}, table.order()) +
         norms.text("norm of the gradient shard", {"rank 0", "rank 1"}, norms.order());
}

std::string short_piece() {
  Table table;
  comm::launch_threads(4, 1, [&](Context& context, auto world) {
    Rank rank(context, std::move(world), small(3),
              {.layout = fsdp::LayoutKind::per_parameter, .wrap_policy = is_block});
    // This is the user's code. It takes a piece that is shorter than a W-th for padding.
    Descent optimizer(context, rank.sharded.units(), [](const fsdp::Update& u) {
      return 4 * u.values.numel() >= u.parameter.shape.numel();
    });
    const auto before = shards(rank);
    rank.sharded.zero_grad();
    rank.forward_backward(4 * context.rank, 4, 128);
    optimizer.step(0.1);
    put_changes(table, rank, before);
  });
  return table.text("weights that a step has changed", {"rank 0", "rank 1", "rank 2", "rank 3"},
                    table.order());
}

}  // namespace

std::vector<Mystery> training_mysteries() {
  return {
      {"A user trains on texts of different lengths. The same rows give one gradient in one "
       "process "
       "and another one on 3 ranks, and nobody reports an error.",
       unequal_tokens,
       {{"Gradients are summed over ranks, not averaged.",
         "Then the norm on 3 ranks would be about three times as large."},
        {"Each rank divides by its own number of tokens, so the tokens of one rank weigh more.",
         "On which rank does a token weigh most? And does it matter which unit is looked at?"},
        {"Ranks have different numbers of rows.", "The first line says how many rows each has."},
        {"Rounding: sums in another order.",
         "Rounding changes the last of seven digits. Compare the first ones."}},
       2,
       "2",
       "all",
       "A mean of means is not the mean. Rank 2 has few tokens and a third of the say. Divide by "
       "the "
       "number of tokens of all ranks, and sum. The same holds for micro-batches: transformers "
       "34191, "
       "verl 5625."},
      {"A user has written the clipping themselves: after backward, the norm of what is in the "
       "gradient shards. The same rows, the same seed:",
       norm_of_a_shard,
       {{"The learning rate is not scaled with the number of ranks.",
         "The rows of a step are the same on 1, 2 and 4 ranks, and so is their mean gradient."},
        {"Each rank clips by the norm of its own shards, so they are clipped differently.",
         "Compare what the ranks multiply by. Is there a rank that is right?"},
        {"Gradients are clipped before they are reduced.",
         "The shards hold gradients that are reduced already."},
        {"One rank has a much larger gradient than the others: a broken row.",
         "No rank's norm stands out by so much; and rows are averaged before."}},
       2,
       "all",
       "all",
       "Add up the squares of all shards over all ranks, then take the root: one norm, one "
       "coefficient. With shards alone every norm is too small, and parts of one gradient are "
       "scaled "
       "differently. The wrong group to sum over does the same: pytorch 170862, VeOmni 184."},
      {"A user fine-tunes with a small learning rate. The loss falls more slowly than it did for a "
       "colleague with the same data.",
       rounded_master,
       {{"A unit is frozen.", "A frozen unit has no gradient at all. See the second table."},
        {"The weights of a unit are kept in bfloat16, and small updates are rounded away.",
         "In which unit do gradients come, and weights stay? On which ranks?"},
        {"One rank does not reduce its gradients.",
         "Both ranks have gradients of the same size in every unit."},
        {"The learning rate is too small for float32.",
         "The other units have the same learning rate, and almost all of their weights change."}},
       2,
       "all",
       "h.1",
       "bfloat16 has 8 bits: an update below a 512th of a weight disappears. Keep the master "
       "weights, "
       "and the moments, in float32; only what travels may be rounded. Met in AReaL 1292."},
      {"A user has changed the vocabulary of a model to 65 tokens, and trains with FSDP2's layout "
       "on 4 "
       "ranks with an optimizer of their own. Rare tokens stay bad.",
       short_piece,
       {{"Rare tokens have small gradients.",
         "Small is not zero. Whether a weight changes depends on the rank that has it."},
        {"On the last rank the optimizer leaves out pieces that are shorter than the others.",
         "One number of the table is far from the number of weights beside it."},
        {"The tied weight is in two units, and only one of them trains.",
         "The library refuses that. And then it would be so on every rank."},
        {"Padding is trained, and weights are not.",
         "Padding does not change anywhere; on three ranks all weights do."}},
       2,
       "3",
       "root",
       "65 rows on 4 ranks are 17, 17, 17 and 14. The optimizer takes a piece that is shorter than "
       "a "
       "quarter for padding, and on rank 3 the rows 51 to 64 of the root's embedding never train; "
       "no "
       "number anywhere is NaN. Tied weights with uneven shards did this in pytorch/pytorch "
       "176076."},
  };
}

}  // namespace lesson::mystery
