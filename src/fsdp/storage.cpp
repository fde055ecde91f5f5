#include "fsdp/storage.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

Buffer wire_for(Context& context, DType travels, DType kept, std::int64_t numel) {
  if (travels == kept) return {};
  return Buffer(context.ledger, MemoryClass::communication,
                static_cast<std::size_t>(numel) * size_of(travels), context.device);
}

Tensor begin_of(const Buffer& wire, std::int64_t numel) {
  return wire.bytes() == 0 ? Tensor() : wire.tensor({numel}, DType::bfloat16);
}

}  // namespace

Whole pool_slots(const Options& options, int blocks, int depth) {
  const bool discards = options.sharding().parameters && options.sharding().reshards_after_forward;
  const std::int64_t around = std::max(depth, 1);
  return {.parameters =
              discards && options.pool ? around + std::max(1, options.forward_prefetch) : blocks,
          .gradients = options.no_sync || !options.pool ? blocks : around + 1};
}

void SharedMemory::allocate(Context& context, const Options& options, const Whole& slots,
                            const Whole& largest, const Whole& root_numel) {
  const DType computed = compute_dtype(options.precision, context.device);
  if (options.borrows_parameters()) {
    const MemoryClass whole = MemoryClass::unsharded_parameters;
    units.parameters.emplace(context, whole, slots.parameters, largest.parameters, computed);
    root.parameters.emplace(context, whole, 1, root_numel.parameters, computed);
  }
  if (options.sharding().gradients) {
    const MemoryClass whole = MemoryClass::unsharded_gradients;
    units.gradients.emplace(context, whole, slots.gradients, largest.gradients);
    root.gradients.emplace(context, whole, 1, root_numel.gradients);
  }
  gather_wire = wire_for(context, options.precision.param_dtype, computed,
                         std::max(largest.parameters, root_numel.parameters));
  reduce_wire = wire_for(context, options.precision.reduce_dtype, DType::float32,
                         std::max(largest.gradients, root_numel.gradients));
}

void SharedMemory::shrink() {
  for (auto* pool : {&units.parameters, &units.gradients, &root.parameters, &root.gradients}) {
    if (*pool) (*pool)->shrink();
  }
}

WholeParameters::WholeParameters(const Options& options, std::span<ShardedParameters> rows,
                                 SharedMemory& memory, bool is_root)
    : options_(options),
      rows_(rows),
      pool_(is_root ? memory.root.parameters : memory.units.parameters),
      wire_(memory.gather_wire),
      shown_version_(rows.size()) {}

bool WholeParameters::is_fresh(std::size_t row) const {
  const bool stored = !pool_ && !travel();
  return stored || rows_[row].parameters().empty() || shown_version_[row] == rows_[row].version();
}

bool WholeParameters::are_fresh() const {
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (!is_fresh(row)) return false;
  }
  return true;
}

void WholeParameters::take(Stream& stream) {
  if (!pool_ || slot_ != nullptr) return;
  slot_ = &pool_->acquire();
  stream.wait(slot_->free);
}

Tensor WholeParameters::whole(std::size_t row) const {
  if (slot_ == nullptr) return rows_[row].parameter_storage();
  std::int64_t begin = 0;
  for (std::size_t r = 0; r < row; ++r) begin += rows_[r].layout().padded_numel();
  return slot_->memory.slice(begin, rows_[row].layout().padded_numel());
}

Tensor WholeParameters::wire(std::size_t row) const {
  const Tensor full = whole(row);
  if (full.dtype() == DType::bfloat16) return full;  // it stays as it travels
  return begin_of(wire_, full.numel());
}

void WholeParameters::show() {
  for (std::size_t row = 0; row < rows_.size(); ++row) rows_[row].show_parameters(whole(row));
}

bool WholeParameters::are_discarded(bool keep) const {
  return !keep && options_.sharding().parameters && slot_ != nullptr;
}

void WholeParameters::discard(Event free) {
  for (ShardedParameters& row : rows_) row.show_parameters(row.parameter_storage());
  shown_version_.assign(rows_.size(), 0);
  pool_->release(*std::exchange(slot_, nullptr), std::move(free));
}

WholeGradients::WholeGradients(Context& context, const Options& options, ShardedParameters& row,
                               SharedMemory& memory, bool is_root)
    : context_(context),
      options_(options),
      row_(&row),
      pool_(is_root ? memory.root.gradients : memory.units.gradients),
      wire_(memory.reduce_wire) {}

bool WholeGradients::are_due(bool last_micro_step) const {
  const bool now = last_micro_step || (pool_ && !options_.no_sync);
  const bool unsummed = are_summed_across(last_micro_step) && landed_ && !complete_;
  return row_->trains() && now && (slot_ != nullptr || unsummed || !options_.sharding().parameters);
}

//! [take]
Event WholeGradients::take() {
  if (!pool_ || slot_ != nullptr) return {};
  slot_ = &pool_->acquire();
  zeroed_ = false;
  return slot_->free;
}

void WholeGradients::show() {
  NANOFSDP_CHECK(!complete_, .what = "backward", .expected = "zero_grad after the last micro-step",
                 .got = "gradients that are sums over ranks already",
                 .hint = "they would be summed once more");
  if (slot_ == nullptr) return;
  if (!std::exchange(zeroed_, true)) {
    ops::fill(*context_.compute, {.x = slot_->memory, .value = 0});
    row_->forget_gradients();
  }
  row_->show_gradients(whole());
}
//! [take]

Tensor WholeGradients::whole() const {
  return slot_ == nullptr ? row_->gradient_storage()
                          : slot_->memory.slice(0, row_->layout().padded_numel());
}

Tensor WholeGradients::wire() const { return begin_of(wire_, row_->layout().padded_numel()); }

void WholeGradients::mark_missing() {
  row_->mark_missing_gradients(*context_.compute, whole());
  row_->show_gradients(row_->gradient_storage());
}

//! [land]
void WholeGradients::land(Stream& stream, Tensor chunk) {
  if (slot_ == nullptr) return;  // it has landed where it stays
  const Tensor shard = row_->gradient_shard();
  if (std::exchange(landed_, true)) {
    ops::accumulate(stream, {.in = chunk, .out = shard});
  } else {
    ops::copy(stream, {.in = chunk, .out = shard});
  }
}
//! [land]

bool WholeGradients::are_summed_across(bool last_micro_step) const {
  return options_.sharding().replicates && last_micro_step;
}

void WholeGradients::complete(bool last_micro_step) {
  complete_ = last_micro_step && (!pool_ || options_.sharding().replicates);
}

void WholeGradients::give_back(const Event& free) {
  if (slot_ != nullptr) pool_->release(*std::exchange(slot_, nullptr), free);
}

void WholeGradients::forget(bool set_to_none) {
  if (!row_->trains()) return;
  give_back(context_.compute->record());  // of a step that was given up
  complete_ = false;
  landed_ = !set_to_none;
  row_->zero_grad(set_to_none);
  row_->show_gradients(row_->gradient_storage());
  if (!pool_) row_->forget_gradients();
  if (set_to_none && pool_) return;
  ops::fill(*context_.compute, {.x = row_->gradient_storage(), .value = 0});
}

void WholeGradients::settle() {
  if (!row_->trains() || !pool_ || landed_) return;
  ops::fill(*context_.compute, {.x = row_->gradient_shard(), .value = -0.0F});
}

}  // namespace nanofsdp::fsdp
