#include "fsdp/storage.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "fsdp/collectives.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {

namespace {

Buffer wire_for(Context& context, DType travels, DType kept, std::int64_t numel) {
  if (travels == kept) return {};
  return Buffer(context.ledger, MemoryClass::communication,
                static_cast<std::size_t>(numel) * size_of(travels), context.device);
}

Tensor all_of(const Buffer& wire) {
  const auto numel = static_cast<std::int64_t>(wire.bytes() / size_of(DType::bfloat16));
  return numel == 0 ? Tensor() : wire.tensor({numel}, DType::bfloat16);
}

// As many slots as are asked for, if the strategy needs any.
BufferPool pool_of(Context& context, const Options& options, bool parameters, std::int64_t slots,
                   std::int64_t numel) {
  const bool needed = parameters ? options.borrows_parameters() : options.sharding().gradients;
  const DType computed = compute_dtype(options.precision, context.device);
  return {context,
          parameters ? MemoryClass::unsharded_parameters : MemoryClass::unsharded_gradients,
          needed ? static_cast<int>(slots) : 0, numel, parameters ? computed : DType::float32};
}

}  // namespace

SharedMemory::SharedMemory(Context& context, const Options& options, const Whole& slots,
                           const Whole& largest, const Whole& root)
    : parameters(pool_of(context, options, true, slots.parameters, largest.parameters)),
      gradients(pool_of(context, options, false, slots.gradients, largest.gradients)),
      root_parameters(pool_of(context, options, true, 1, root.parameters)),
      root_gradients(pool_of(context, options, false, 1, root.gradients)),
      gather_wire(wire_for(context, options.precision.param_dtype,
                           compute_dtype(options.precision, context.device),
                           std::max(largest.parameters, root.parameters))),
      reduce_wire(wire_for(context, options.precision.reduce_dtype, DType::float32,
                           std::max(largest.gradients, root.gradients))) {}

void SharedMemory::shrink() {
  for (BufferPool* pool : {&parameters, &gradients, &root_parameters, &root_gradients}) {
    pool->shrink();
  }
}

WholeParameters::WholeParameters(Context& context, const Options& options,
                                 std::span<ShardedParameters> rows, SharedMemory& memory,
                                 bool is_root)
    : context_(context),
      options_(options),
      rows_(rows),
      pool_(is_root ? &memory.root_parameters : &memory.parameters),
      wire_(all_of(memory.gather_wire)),
      shown_version_(rows.size()) {}

bool WholeParameters::rounded(const Purpose& purpose) const {
  return !purpose.full_precision || options_.precision.param_dtype == DType::float32;
}

std::int64_t WholeParameters::padded_numel() const {
  std::int64_t sum = 0;
  for (const ShardedParameters& row : rows_) sum += row.layout().padded_numel();
  return sum;
}

Tensor WholeParameters::of_row(const Tensor& all, std::size_t row) const {
  std::int64_t begin = 0;
  for (std::size_t r = 0; r < row; ++r) begin += rows_[r].layout().padded_numel();
  return all.slice(begin, rows_[row].layout().padded_numel());
}

bool WholeParameters::is_fresh(std::size_t row, const Purpose& purpose) const {
  const bool stored = !options_.borrows_parameters() && !travel();
  return stored || rows_[row].parameters().empty() ||
         (shown_version_[row] == rows_[row].version() && rounded_ == rounded(purpose));
}

bool WholeParameters::are_fresh(const Purpose& purpose) const {
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (!is_fresh(row, purpose)) return false;
  }
  return true;
}

bool WholeParameters::serve_training(const Purpose& purpose) const {
  return !options_.sharding().parameters && rounded(purpose);
}

void WholeParameters::take(Stream& stream, const Purpose& purpose) {
  const bool rounded_before = std::exchange(rounded_, rounded(purpose));
  if (rounded_before != rounded_) shown_version_.assign(rows_.size(), 0);
  if (!rounded_ && compute_dtype(options_.precision, context_.device) != DType::float32) {
    exact_ =
        Buffer(context_.ledger, MemoryClass::unsharded_parameters,
               static_cast<std::size_t>(padded_numel()) * size_of(DType::float32), context_.device);
  } else if (options_.borrows_parameters() && slot_ == nullptr) {
    slot_ = &pool_->acquire();
    stream.wait(slot_->free);
  }
}

Tensor WholeParameters::whole(std::size_t row) const {
  if (exact_.bytes() > 0) return of_row(exact_.tensor({padded_numel()}), row);
  return slot_ == nullptr ? rows_[row].parameter_storage() : of_row(slot_->memory, row);
}

Tensor WholeParameters::wire(std::size_t row) const {
  const Tensor full = whole(row);
  if (full.dtype() == DType::bfloat16) return full;  // it stays as it travels
  return rounded_ && !wire_.empty() ? of_row(wire_, row) : Tensor();
}

void WholeParameters::show() {
  for (std::size_t r = 0; r < rows_.size(); ++r) rows_[r].show_parameters(whole(r));
}

bool WholeParameters::are_discarded(bool keep) const {
  return exact_.bytes() > 0 || (!keep && options_.sharding().parameters && slot_ != nullptr);
}

void WholeParameters::discard() {
  for (ShardedParameters& row : rows_) row.show_stored_parameters();
  shown_version_.assign(rows_.size(), 0);
  if (exact_.bytes() > 0) {
    context_.compute->synchronize();  // until nobody reads it
    exact_ = Buffer();
  }
  if (slot_ == nullptr || !options_.sharding().parameters) return;
  pool_->release(*std::exchange(slot_, nullptr), context_.compute->record());
}

WholeGradients::WholeGradients(Context& context, const Options& options, ShardedParameters& row,
                               SharedMemory& memory, bool is_root)
    : context_(context),
      options_(options),
      row_(&row),
      pool_(is_root ? &memory.root_gradients : &memory.gradients) {
  const Tensor wire = all_of(memory.reduce_wire);
  if (!wire.empty() && row.trains()) wire_ = wire.slice(0, row.layout().padded_numel());
}

bool WholeGradients::are_due(bool last_micro_step) const {
  if (!row_->trains()) return false;
  return last_micro_step || (options_.sharding().gradients && !options_.no_sync);
}

bool WholeGradients::are_pending() const {
  const bool unsummed = options_.sharding().replicates && accumulate_ && !complete_;
  return slot_ != nullptr || unsummed || !options_.sharding().parameters;
}

//! [take]
Event WholeGradients::take() {
  if (!borrow() || slot_ != nullptr) return {};
  slot_ = &pool_->acquire();
  zeroed_ = false;
  return slot_->free;
}

void WholeGradients::show() {
  NANOFSDP_CHECK(!complete_, .what = "backward", .expected = "zero_grad after the last micro-step",
                 .got = "gradients that are sums over ranks already",
                 .hint = "they would be summed once more");
  if (!borrow()) return;
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

void WholeGradients::mark_missing() {
  row_->mark_missing_gradients(*context_.compute, whole());
  row_->show_stored_gradients();
}

//! [land]
void WholeGradients::land(Stream& stream, Tensor chunk) {
  if (!borrow()) return;  // it has landed where it stays
  const Tensor shard = row_->gradient_shard();
  if (std::exchange(accumulate_, true)) {
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
  complete_ = last_micro_step && (!borrow() || options_.sharding().replicates);
}

void WholeGradients::give_back(const Event& free) {
  if (slot_ != nullptr) pool_->release(*std::exchange(slot_, nullptr), free);
}

void WholeGradients::forget(bool set_to_none) {
  if (!row_->trains()) return;
  give_back(context_.compute->record());  // of a step that was given up
  complete_ = false;
  accumulate_ = !set_to_none;
  row_->zero_grad(set_to_none);
  row_->show_stored_gradients();
  if (!borrow()) row_->forget_gradients();
  if (set_to_none && borrow()) return;
  ops::fill(*context_.compute, {.x = row_->gradient_storage(), .value = 0});
}

void WholeGradients::settle() {
  if (!row_->trains() || !borrow() || accumulate_) return;
  ops::fill(*context_.compute, {.x = row_->gradient_shard(), .value = -0.0F});
}

}  // namespace nanofsdp::fsdp
