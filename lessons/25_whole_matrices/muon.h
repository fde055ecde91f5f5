#pragma once

#include <cmath>
#include <utility>

#include "25_whole_matrices/groups.h"
#include "25_whole_matrices/orthogonalise.h"
#include "25_whole_matrices/turns.h"
#include "fsdp/adamw.h"
#include "fsdp/collectives.h"

/// @file
/// @brief Muon (Jordan et al. 2024), sharded, for any layout and strategy. Its parts are the
/// library's collectives and operators.
///
/// Muon replaces the momentum of a matrix by the nearest matrix whose rows are orthogonal and have
/// length 1 (its columns, if it has more rows than columns). That matrix depends on all elements of
/// the momentum, so no rank can compute its shard of it alone. For each unit that has matrices:
///
/// 1. every rank updates its shard of the momentum;
/// 2. an all-gather gives every rank the momentum of the whole unit;
/// 3. each rank orthogonalises the matrices that are its turn, and fills all others with zeros;
/// 4. a reduce-scatter adds these buffers up, so each rank gets its shard of the whole update.
///
/// Each element of the update is computed once, on one rank, from a whole matrix. So its bits do
/// not depend on the number of ranks, the layout or the strategy. If nothing is sharded, each rank
/// computes the whole update, and nothing is sent.

namespace lesson {

struct MuonOptions {
  double momentum = 0.95;         ///< the decay of the momentum, in (0, 1)
  fsdp::AdamWOptions adamw = {};  ///< its betas and eps; the decay is that of the group
  Groups group = gpt_group;       ///< by name and shape
  /// A mistake, for lesson 25: each rank orthogonalises its slice of a matrix, and sends nothing.
  /// It needs the layout per parameter, where a slice has whole rows.
  bool slices = false;
};

/// Muon for the parameters that their group gives to it, and AdamW for all others. `exp_avg` is the
/// momentum of both. The matrices leave `exp_avg_sq` at 0.
class Muon final : public fsdp::ShardedOptimizer {
 public:
  /// @param units of one model on `mesh`; both outlive the optimizer
  /// @throws Error under hybrid_shard_optimizer (of_whole_groups())
  Muon(Context& context, std::span<fsdp::Unit> units, comm::Mesh& mesh, MuonOptions options = {})
      : ShardedOptimizer(context, units, {"exp_avg", "exp_avg_sq"}),
        context_(context),
        units_(units),
        mesh_(mesh),
        options_(std::move(options)) {
    std::vector<double> load(static_cast<std::size_t>(mesh.shard_size()));
    std::int64_t row = 0, copied = 0, largest = 1;
    for (fsdp::Unit& unit : of_whole_groups(units)) {
      std::vector<Matrix>& matrices = matrices_.emplace_back();
      const fsdp::Layout& layout = unit.rows().front().layout();
      for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
        const nn::Parameter& p = *unit.rows().front().parameters()[i];
        if (!options_.group(p).muon) continue;
        matrices.push_back({i, double(std::min(p.shape[0], p.shape[1]) * p.shape.numel())});
        largest = std::max(largest, p.shape.numel());
        row = std::max(row, layout.padded_numel());
        copied = layout.kind() == fsdp::LayoutKind::per_parameter ? row : 0;
      }
      share_out(matrices, load);
    }
    whole_ = context.buffer(MemoryClass::communication, row);
    sent_ = context.buffer(MemoryClass::communication, copied);
    room_ = context.buffer(MemoryClass::communication, 3 * largest);
  }

  void step(double lr, Tensor grad_scale = {}) override {
    ShardedOptimizer::step(lr, grad_scale);  // AdamW
    const float scale = grad_scale.empty() ? 1 : item<float>(*context_.compute, grad_scale);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (!matrices_[u].empty() && units_[u].rows().front().is_reduced()) step_of(u, lr, scale);
    }
  }

 private:
  void update(Stream& stream, const fsdp::Update& u) override {
    const Group group = options_.group(u.parameter);
    if (group.muon) return;  // step_of() updates it
    const fsdp::AdamWOptions& o = options_.adamw;
    ops::adamw(stream, {u.values, u.gradients, u.state[0], u.state[1], u.lr * group.lr_factor,
                        o.beta1, o.beta2, o.eps, group.weight_decay, u.step, u.grad_scale});
  }

  //! [step]
  void step_of(std::size_t u, double lr, float scale) {
    Stream &stream = *context_.compute, &gather = *context_.gather, &reduce = *context_.reduce;
    const fsdp::ShardedParameters& row = units_[u].rows().front();
    const fsdp::Layout& layout = row.layout();
    const bool sharded = row.at_rest().optimizer && !options_.slices;
    const bool copies = sharded && layout.kind() == fsdp::LayoutKind::per_parameter;
    const std::int64_t n = row.parameter_shard().numel();
    const Tensor whole = whole_.tensor({sharded ? layout.whole_numel() : n});
    const Tensor sent = copies ? sent_.tensor({layout.padded_numel()}) : whole;
    const fsdp::Wire wire = copies ? fsdp::Wire{sent, &layout} : fsdp::Wire{};
    Tensor mine = sharded ? sent.slice(row.rank() * n, n) : whole;
    // Visits the piece of each matrix that this rank updates.
    const std::vector<bool> have = row.have_gradients();
    const auto for_each_piece = [&](const auto& visit) {
      for (const Matrix& matrix : matrices_[u]) {
        const std::size_t i = matrix.parameter;
        const fsdp::Range at = row.owned(i).in_shard;
        const auto piece = [at](const Tensor& all) { return all.slice(at.begin, at.size()); };
        if (have[i] && !at.empty()) visit(*row.parameters()[i], piece);
      }
    };
    // The momentum, and Nesterov's average of it and the gradient, divided by mu. The factor makes
    // no difference, for orthogonalise() divides by the norm.
    ops::fill(stream, {.x = mine, .value = 0});
    for_each_piece([&](const nn::Parameter&, const auto& piece) {
      const double mu = options_.momentum;
      ops::copy(stream, {.in = piece(row.gradient_shard()), .out = piece(mine)});
      mix(stream, piece(state(u)[0]), mu, piece(mine), (1 - mu) * scale);
      mix(stream, piece(mine), 1 / mu, piece(state(u)[0]), 1);
    });
    if (sharded) {
      gather.wait(stream.record());
      fsdp::all_gather(gather, &mesh_.gather(), mine, whole, wire, {units_[u].name()});
      stream.wait(gather.record());
    }
    for (const Matrix& matrix : matrices_[u]) {
      const std::size_t i = matrix.parameter;
      const fsdp::Range at = sharded ? layout.in_whole(i) : row.owned(i).in_shard;
      const Shape shape = sharded ? row.parameters()[i]->shape : row.owned_shape(i);
      const Tensor x = whole.slice(at.begin, at.size()).view(shape);
      const bool is_turn = !sharded || matrix.rank == row.rank();
      if (!is_turn) ops::fill(stream, {.x = x, .value = 0});
      if (is_turn && !at.empty()) orthogonalise(stream, x, room_);
    }
    if (sharded) {
      reduce.wait(stream.record());
      mine = fsdp::reduce_scatter(reduce, mesh_.reduce(), whole, wire, comm::ReduceOp::sum,
                                  {units_[u].name()});
      stream.wait(reduce.record());
    }
    // With the factor 0.2 sqrt(the longer side) an element changes as much as under AdamW.
    for_each_piece([&](const nn::Parameter& p, const auto& piece) {
      const Group group = options_.group(p);
      const double rate = lr * group.lr_factor;
      const double factor = rate * 0.2 * std::sqrt(std::max(p.shape[0], p.shape[1]));
      mix(stream, piece(row.parameter_shard()), 1 - rate * group.weight_decay, piece(mine),
          -factor);
    });
  }
  //! [step]

  Context& context_;
  std::span<fsdp::Unit> units_;
  comm::Mesh& mesh_;
  MuonOptions options_;
  std::vector<std::vector<Matrix>> matrices_;  // unit by unit
  Buffer whole_, sent_, room_;
};

}  // namespace lesson
