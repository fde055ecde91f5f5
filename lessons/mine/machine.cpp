#include "machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/local.h"
#include "ranks.h"
#include "step.h"

namespace lesson::mine {
namespace {

// This is lesson 12: every rank goes through all draws, and keeps the numbers that its shard has at
// the end. Here it does so for all ranks, because training begins with whole parameters.
Rows first_values(gpt::GPT& model, const std::deque<Unit>& units, const Pieces& pieces) {
  Generator generator(1337);
  const std::vector<nn::Parameter*> all = model.named_parameters();
  const auto number_of = [&](const nn::Parameter* p) {
    return static_cast<int>(std::ranges::find(all, p) - all.begin());
  };
  std::vector<PlannedDraw> plan;
  std::vector<float> stream;
  for (const auto& [p, init] : model.nanogpt_draws()) {
    plan.push_back({number_of(p), p->shape.numel()});
    stream.resize(stream.size() + static_cast<std::size_t>(p->shape.numel()));
    nn::draw(generator, init, std::span(stream).last(static_cast<std::size_t>(p->shape.numel())));
  }
  Rows rows;
  for (const Unit& unit : units) {
    std::vector<float>& row = rows.emplace_back(unit.layout.padded_numel());
    for (std::size_t i = 0; i < unit.at.size(); ++i) {
      for (int rank = 0; rank < unit.layout.world_size(); ++rank) {
        const fsdp::Piece piece = piece_of(unit, i, rank, pieces);
        if (piece.in_parameter.empty()) continue;
        const fsdp::Range from =
            pieces.kept(plan, number_of(unit.wrapped.parameters[i]), piece.in_parameter);
        require(from.begin >= 0 && from.end <= std::ssize(stream) &&
                    from.size() == piece.in_parameter.size(),
                "lesson 12: numbers that the stream has not, or too many of them");
        std::copy(stream.begin() + from.begin, stream.begin() + from.end,
                  row.begin() + unit.layout.shard_of(rank).begin + piece.in_shard.begin);
      }
    }
  }
  return rows;
}

// One rank of the whole run.
class Rank {
 public:
  Rank(Context& context, comm::Communicator& world, Between& between, const Pieces& pieces,
       const Setup& setup, const data::Dataset& text, Outcome& outcome)
      : context_(context),
        world_(world),
        between_(between),
        pieces_(pieces),
        setup_(setup),
        text_(text),
        outcome_(outcome),
        model_(config_of(text)),
        tape_(context),
        units_(units_of(model_, setup.W, pieces)),
        rows_(first_values(model_, units_, pieces)) {}

  void run() {
    momentum();
    full_shard();
  }

 private:
  // In ZeRO-1, parameters and gradients are whole, and the momentum is a shard.
  void momentum() {
    Feed feed(text_, context_.rank, setup_.W, kRows, 1);
    Rows gradients, momenta;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      gradients.emplace_back(rows_[u].size());
      momenta.emplace_back(units_[u].layout.shard_numel());
      show_parameters(units_[u], rows_[u].data());
      show_gradients(units_[u], gradients[u].data());
    }
    for (int step = 1; step <= setup_.first_steps; ++step) {
      world_.reset_traffic();
      for (std::vector<float>& row : gradients) std::ranges::fill(row, 0.0f);
      note_loss(step, forward_backward(model_, tape_, feed, setup_.W, 1, true), 1);
      for (std::size_t u = 0; u < units_.size(); ++u) {
        pieces_.sharded_momentum_step(*context_.compute, world_, rows_[u], gradients[u], momenta[u],
                                      static_cast<float>(kMomentumRate));
      }
      note(step, "bytes sent", static_cast<double>(world_.traffic().bytes_sent));
    }
  }

  void full_shard() {
    Rounding rounding(world_, between_, pieces_.average);
    ShardedRank sharded(context_, rounding, pieces_, units_, rows_);
    Feed feed(text_, context_.rank, setup_.W, kRows, 2);
    for (int step = 1; step <= setup_.steps; ++step) {
      world_.reset_traffic();
      const std::int64_t before = rounding.bytes_sent();
      float loss = 0;
      for (int m = 0; m < kMicroBatches; ++m) {
        sharded.begin_pass(/*training=*/true, m == 0);
        loss += forward_backward(model_, tape_, feed, setup_.W, kMicroBatches, true);
      }
      note_loss(setup_.first_steps + step, loss, kMicroBatches);
      note(setup_.first_steps + step, "gradient norm", sharded.update(step));
      note(setup_.first_steps + step, "bytes sent",
           static_cast<double>(world_.traffic().bytes_sent + rounding.bytes_sent() - before));
    }
    for (const MemoryClass kind : kMemoryClasses) {
      if (kind == MemoryClass::activations || kind == MemoryClass::communication) continue;
      note(0, fmt::format("peak bytes of {}", name_of(kind)),
           static_cast<double>(context_.ledger.count(kind).reserved_peak));
    }
    note(0, "milliseconds that a forward waits", sharded.waits());
    const Rows loaded = save_and_load();
    if (context_.rank == 0) keep_weights(loaded);
    sharded.load(loaded);
    evaluate(sharded);
  }

  // Every rank puts its loss into a chunk of its own, so the sum over ranks has all losses.
  void note_loss(int step, float loss, int micro_batches) {
    std::vector<float> losses(static_cast<std::size_t>(setup_.W));
    losses[static_cast<std::size_t>(context_.rank)] = loss;
    Ring ring(between_, context_.rank, setup_.W);
    pieces_.ring_all_reduce(context_.rank, setup_.W, losses, ring);
    double sum = 0;
    for (const float of_rank : losses) sum += of_rank;
    note(step, "loss", sum / (micro_batches * kRows * kContext));
  }

  // W ranks save their shards. W + 1 ranks load them, and their shards make the rows again. Each
  // rank plays all of these ranks.
  Rows save_and_load() {
    const int W = setup_.W, L = W + 1;
    auto& mine = between_.files[static_cast<std::size_t>(context_.rank)];
    for (const Unit& unit : units_) {
      const auto shard = unit.parameters.tensor({unit.layout.shard_numel()}).span<float>();
      mine.emplace_back(shard.begin(), shard.end());
    }
    context_.compute->wait(world_.barrier(*context_.compute));
    Rows rows;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::int64_t n = units_[u].layout.padded_numel(), s = units_[u].layout.shard_numel();
      const std::int64_t wanted = (n + L - 1) / L;
      rows.emplace_back(n, std::numeric_limits<float>::quiet_NaN());
      for (std::int64_t r = 0; r < L; ++r) {
        const fsdp::Range files = pieces_.files_to_read(n, W, L, r);
        require(files.begin >= 0 && files.end <= W, "lesson 19: a file that nobody saved");
        for (std::int64_t f = files.begin; f < files.end; ++f) {
          const std::int64_t begin = std::max(r * wanted, f * s);
          const std::int64_t end = std::min({n, (r + 1) * wanted, (f + 1) * s});
          const float* file = between_.files[static_cast<std::size_t>(f)][u].data();
          if (begin < end)
            std::copy(file + begin - f * s, file + end - f * s, rows[u].begin() + begin);
        }
      }
    }
    return rows;
  }

  void keep_weights(const Rows& rows) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const fsdp::Range at : units_[u].at) {
        outcome_.weights.insert(outcome_.weights.end(), rows[u].begin() + at.begin,
                                rows[u].begin() + at.end);
      }
    }
  }

  // The mean loss over rows. Ranks have unequal numbers of rows.
  void evaluate(ShardedRank& sharded) {
    Feed feed(text_, context_.rank, setup_.W, kEvaluated, 3);
    feed.next(data::Split::val);
    sharded.begin_pass(/*training=*/false, true);
    tape_.begin(/*training=*/false);
    const std::span<float> logits = model_.forward(tape_, feed.x()).span<float>();
    const std::span<const std::int32_t> targets = feed.targets();
    const std::size_t V = logits.size() / targets.size();
    double sum = 0;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      sum += pieces_.loss_of(logits.subspan(t * V, V), static_cast<std::size_t>(targets[t]));
    }
    float mean = static_cast<float>(sum / static_cast<double>(targets.size()));
    pieces_.share_gradient(*context_.compute, world_, {&mean, 1}, feed.rows(), kEvaluated);
    note(0, "loss of the evaluation", mean, true);
  }

  void note(int step, std::string what, double value, bool near = false) {
    if (context_.rank == 0) outcome_.numbers.push_back({step, std::move(what), value, near});
  }

  Context& context_;
  comm::Communicator& world_;
  Between& between_;
  const Pieces& pieces_;
  const Setup& setup_;
  const data::Dataset& text_;
  Outcome& outcome_;
  gpt::GPT model_;
  nn::Tape tape_;
  std::deque<Unit> units_;
  Rows rows_;
};

// Numbers as the program prints a difference: whole numbers as they are, others with all digits.
std::string shown(double value) {
  if (std::isnan(value)) return "NaN";
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                              : fmt::format("{:.9g}", value);
}

}  // namespace

gpt::GPTConfig config_of(const data::Dataset& text) {
  return {.block_size = kContext,
          .vocab_size = text.tokenizer().vocab_size(),
          .n_layer = 3,
          .n_head = 2,
          .n_embd = 30,  // 30 is no multiple of the alignment, so rows have gaps
          .dropout = 0,
          .bias = false};
}

Outcome by_hand(const Pieces& pieces, const Setup& setup, const data::Dataset& text) {
  Outcome outcome;
  Between between(setup.W);
  comm::launch_threads(setup.W, 1, [&](Context& context, auto group) {
    comm::Communicator& world = *group;
    Rank(context, world, between, pieces, setup, text, outcome).run();
  });
  return outcome;
}

std::string first_difference(const Outcome& yours, const Outcome& library) {
  for (std::size_t i = 0; i < library.numbers.size(); ++i) {
    const Number &a = yours.numbers[i], &b = library.numbers[i];
    if (a.value == b.value || (b.near && std::abs(a.value - b.value) <= 1e-6 * b.value)) continue;
    const std::string when = b.step == 0 ? "at the end" : fmt::format("step {}", b.step);
    return fmt::format("{}, {}: yours {}, the library's {}", when, b.what, shown(a.value),
                       shown(b.value));
  }
  for (std::size_t i = 0; i < library.weights.size(); ++i) {
    if (yours.weights[i] == library.weights[i]) continue;
    return fmt::format("at the end, weight {}: yours {}, the library's {}", i,
                       shown(yours.weights[i]), shown(library.weights[i]));
  }
  return {};
}

}  // namespace lesson::mine
