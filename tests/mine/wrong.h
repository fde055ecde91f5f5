#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "pieces.h"

/// @file
/// @brief One plausible mistake in each piece of the machine, and the first number that shows it.

namespace lesson::mine {

using namespace nanofsdp;

struct Mistake {
  std::string_view number;
  void (*make)(Pieces&);
  std::string_view shows;  ///< the words with which the first difference begins
};

// The right pieces. Each mistake replaces one of them.
inline const Pieces& right() {
  static const Pieces pieces = solutions();
  return pieces;
}

inline const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all = {
      {"01",  // it forgets the target
       [](Pieces& p) {
         p.loss_of = [](std::span<const float> logits, std::size_t) {
           return right().loss_of(logits, 0);
         };
       },
       "at the end, loss of the evaluation"},
      {"03",  // it has the order of forward
       [](Pieces& p) {
         p.completion_order = [](std::span<const int> uses) {
           std::vector<int> order = right().completion_order(uses);
           std::ranges::reverse(order);
           return order;
         };
       },
       "step 5, gradient norm"},
      {"04",  // it uses the chunk that came last instead of the one before it
       [](Pieces& p) {
         p.ring_all_reduce = [](int rank, int W, std::span<float> x, Neighbours& ring) {
           right().ring_all_reduce(rank, W, x, ring);
           std::ranges::rotate(x, x.begin() + 1);
           x[0] = x[1];
         };
       },
       "step 1, loss"},
      {"05",  // it takes the mean of the ranks' means
       [](Pieces& p) {
         p.share_gradient = [](Stream& stream, comm::Communicator& world, std::span<float> gradient,
                               std::int64_t, std::int64_t) {
           right().share_gradient(stream, world, gradient, 1, world.size());
         };
       },
       "at the end, loss of the evaluation"},
      {"07",  // it has no alignment
       [](Pieces& p) {
         p.views = [](std::span<float> row, std::span<const fsdp::ParameterSpec> parameters,
                      std::int64_t) { return right().views(row, parameters, 1); };
       },
       "step 5, gradient norm"},
      {"08",  // it loses the last element
       [](Pieces& p) {
         p.piece = [](fsdp::Range parameter, fsdp::Range shard) {
           fsdp::Piece piece = right().piece(parameter, shard);
           if (piece.in_shard.size() > 1) --piece.in_shard.end, --piece.in_parameter.end;
           return piece;
         };
       },
       "step 1, loss"},
      {"09",  // it sums instead of averaging
       [](Pieces& p) {
         p.sharded_momentum_step = [](Stream& stream, comm::Communicator& world,
                                      std::span<float> parameters, std::span<float> gradient,
                                      std::span<float> momentum, float lr) {
           for (float& g : gradient) g *= static_cast<float>(world.size());
           right().sharded_momentum_step(stream, world, parameters, gradient, momentum, lr);
         };
       },
       "step 2, loss"},
      {"10",  // it adds to the gradients of the step before
       [](Pieces& p) {
         p.reduce_gradient = [](Stream& stream, comm::Communicator& world, std::span<float> whole,
                                std::span<float> shard, bool) {
           right().reduce_gradient(stream, world, whole, shard, false);
         };
       },
       "step 6, gradient norm"},
      {"11",  // backward computes with weights that forward has left
       [](Pieces& p) {
         p.pre_backward = [](HookedUnit& unit) {
           if (!unit.has_gradient()) unit.borrow(), unit.zero();
         };
       },
       "step 5, gradient norm"},
      {"12",  // it keeps the first draw, which a later one should overwrite
       [](Pieces& p) {
         p.kept = [](std::span<const PlannedDraw> plan, int parameter, fsdp::Range piece) {
           const auto of = [&](const PlannedDraw& draw) { return draw.parameter == parameter; };
           const auto first = std::ranges::find_if(plan, of) - plan.begin() + 1;
           return right().kept(plan.first(static_cast<std::size_t>(first)), parameter, piece);
         };
       },
       "step 1, loss"},
      {"13",  // it counts no communication as hidden
       [](Pieces& p) {
         p.exposed = [](const lesson::Schedule& schedule) {
           int sum = 0;
           for (const auto& did : schedule) sum += did.milliseconds;
           return sum;
         };
       },
       "at the end, milliseconds that a forward waits"},
      {"14",  // it uses one slot instead of two
       [](Pieces& p) {
         p.finish = [](const ::Schedule& schedule) {
           return schedule.units * (schedule.gather + schedule.compute);
         };
       },
       "at the end, peak bytes of unsharded parameters"},
      {"15",  // it rounds the average
       [](Pieces& p) {
         p.average = [](std::span<const std::vector<bfloat16>> ranks, std::span<float> out) {
           for (std::size_t i = 0; i < out.size(); ++i) {
             float sum = 0;
             for (const auto& row : ranks) sum += to_float32(row[i]);
             out[i] = to_float32(to_bfloat16(sum / static_cast<float>(ranks.size())));
           }
         };
       },
       "step 5, gradient norm"},
      {"16",  // it uses the norm of the shard instead of its square
       [](Pieces& p) {
         p.squares = [](const fsdp::Layout& layout, int rank, std::span<const float> shard) {
           return std::sqrt(right().squares(layout, rank, shard));
         };
       },
       "step 5, gradient norm"},
      {"17",  // it counts a recompute as a forward
       [](Pieces& p) {
         p.on = [](::Hook hook, ::State& state) {
           if (hook == ::Hook::post_forward) return ::Action::discard;
           return right().on(hook, state);
         };
       },
       "step 5, gradient norm"},
      {"19",  // it leaves out the last file
       [](Pieces& p) {
         p.files_to_read = [](std::int64_t n, std::int64_t savers, std::int64_t W, std::int64_t r) {
           const fsdp::Range files = right().files_to_read(n, savers, W, r);
           return fsdp::Range{files.begin, std::max(files.begin + 1, files.end - 1)};
         };
       },
       "at the end, loss of the evaluation"},
  };
  return all;
}

}  // namespace lesson::mine
