#include "fsdp/storage.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
namespace {

// Elements of the row of a layout that travels, if it is copied or cast on its way.
std::int64_t wire_numel(DType travels, const Layout& layout, DType whole, bool copies) {
  return copies ? layout.padded_numel() : travels == whole ? 0 : layout.whole_numel();
}

// That row, in memory that is long enough for it.
Wire wire_of(const Buffer& memory, DType travels, const Options& options, const Layout& layout,
             DType whole = DType::float32, bool near = false) {
  const bool copies = options.copies() && !near;
  return {.memory = memory.tensor({wire_numel(travels, layout, whole, copies)}, travels),
          .layout = copies ? &layout : nullptr};
}

// Makes the memory long enough, before it is allocated.
void need_wire(WholeMemory& memory, DType travels, const Options& options, const Layout& layout,
               DType whole = DType::float32) {
  const std::int64_t words = travels == DType::bfloat16 ? 1 : 2;
  const std::int64_t numel = wire_numel(travels, layout, whole, options.copies());
  memory.wire_words = std::max(memory.wire_words, words * numel);
}

}  // namespace

Whole pool_slots(const Options& options, int blocks, int depth) {
  const bool discards = options.sharding().parameters && options.sharding().reshards_after_forward;
  const std::int64_t around = std::max(depth, 1);
  return {.parameters =
              discards && options.pool ? around + std::max(1, options.forward_prefetch) : blocks,
          .gradients = options.accumulates() || !options.pool ? blocks : around + 1};
}

void WholeMemory::allocate(Context& context, MemoryClass of, std::int64_t slots, DType whole) {
  if (unit_numel + root_numel > 0) {
    units.emplace(context, of, slots, unit_numel, whole);
    root.emplace(context, of, 1, root_numel, whole);
  }
  wire = context.buffer(MemoryClass::communication, wire_words, DType::bfloat16);
}

void WholeMemory::shrink() {
  for (auto* pool : {&units, &root}) {
    if (*pool) (*pool)->shrink();
  }
}

WholeParameters::WholeParameters(Context& context, const Options& options, comm::Mesh& mesh,
                                 std::span<ShardedParameters> rows, WholeMemory& memory,
                                 bool is_root)
    : options_(options),
      mesh_(mesh),
      rows_(rows),
      computed_(compute_dtype(options.precision, context.device)),
      pool_(is_root ? memory.root : memory.units),
      wire_(memory.wire),
      shown_version_(rows.size()) {
  std::int64_t numel = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    begin_.push_back(numel);
    if (borrows(row)) numel += rows[row].layout().whole_numel();
    need_wire(memory, travels_as(row), options, rows[row].layout(), computed_);
  }
  std::int64_t& largest = is_root ? memory.root_numel : memory.unit_numel;
  largest = std::max(largest, numel);
  if (mesh.post_forward() == nullptr || is_root) return;
  slice_ = context.buffer(MemoryClass::unsharded_parameters, numel / mesh.post_forward()->size(),
                          computed_);
}

bool WholeParameters::is_fresh(std::size_t row) const {
  const bool stored = !borrows(row) && !travel();
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
  if (!slice_version_.empty()) stream.wait(slice_written_);
}

DType WholeParameters::travels_as(std::size_t row) const {
  if (rows_[row].dtype() == DType::float32) return options_.precision.param_dtype;
  return travel() ? DType::bfloat16 : computed_;  // or each rank widens what it has
}

Tensor WholeParameters::whole(std::size_t row) const {
  if (slot_ == nullptr || !borrows(row)) return rows_[row].parameter_storage();
  return slot_->memory.slice(begin_[row], rows_[row].layout().whole_numel());
}

void WholeParameters::gather(Stream& stream, const comm::Call& call) {
  comm::Communicator* const all = travel() ? &mesh_.gather() : nullptr;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (is_fresh(row)) continue;
    const bool near = !slice_version_.empty() && slice_version_[row] == rows_[row].version();
    const Wire wire =
        wire_of(wire_, travels_as(row), options_, rows_[row].layout(), computed_, near);
    all_gather(stream, near ? mesh_.post_forward() : all,
               near ? slice(row) : rows_[row].parameter_shard(), whole(row), wire, call);
    shown_version_[row] = rows_[row].version();
  }
}

Tensor WholeParameters::slice(std::size_t row) const {
  const std::int64_t ranks = mesh_.post_forward()->size();
  const std::uint64_t offset = static_cast<std::uint64_t>(begin_[row] / ranks) * size_of(computed_);
  return slice_.tensor({rows_[row].layout().whole_numel() / ranks}, computed_, offset);
}

//! [keep_slice]
void WholeParameters::keep_slice(Stream& stream) {
  if (slice_.bytes() == 0) return;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const Tensor mine = slice(row);
    const std::int64_t begin = mesh_.post_forward()->rank() * mine.numel();
    ops::copy(stream, {.in = whole(row).slice(begin, mine.numel()), .out = mine});
  }
  slice_version_ = shown_version_;
  slice_written_ = stream.record();
}
//! [keep_slice]

void WholeParameters::show() {
  for (std::size_t row = 0; row < rows_.size(); ++row) rows_[row].show_parameters(whole(row));
}

bool WholeParameters::are_discarded(bool keep) const {
  return !keep && options_.sharding().parameters && slot_ != nullptr;
}

void WholeParameters::discard(Stream& stream) {
  for (ShardedParameters& row : rows_) row.show_parameters();
  shown_version_.assign(rows_.size(), 0);
  if (options_.poison) ops::fill(stream, {.x = slot_->memory, .value = std::nanf("")});
  pool_->release(*std::exchange(slot_, nullptr), stream.record());
}

WholeGradients::WholeGradients(Context& context, const Options& options, ShardedParameters& row,
                               WholeMemory& memory, bool is_root)
    : context_(context),
      options_(options),
      row_(&row),
      pool_(is_root ? memory.root : memory.units),
      wire_(memory.wire) {
  if (!row.trains()) return;
  std::int64_t& largest = is_root ? memory.root_numel : memory.unit_numel;
  if (row.kept().gradients) largest = std::max(largest, row.layout().whole_numel());
  need_wire(memory, options.precision.reduce_dtype, options, row.layout());
}

bool WholeGradients::are_due(bool last_micro_step) const {
  const bool now = last_micro_step || !options_.accumulates();
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
                          : slot_->memory.slice(0, row_->layout().whole_numel());
}

void WholeGradients::mark_missing() {
  row_->mark_missing_gradients(*context_.compute, whole());
  row_->show_gradients();
}

//! [landed]
void WholeGradients::reduce(Stream& stream, comm::Mesh& mesh, bool last_micro_step,
                            const comm::Call& call) {
  const Wire wire = wire_of(wire_, options_.precision.reduce_dtype, options_, row_->layout());
  const comm::ReduceOp op = options_.reduction;
  if (options_.sharding().optimizer) {
    land(stream, reduce_scatter(stream, mesh.reduce(), whole(), wire, op, call));
  } else {
    all_reduce(stream, mesh.reduce(), whole(), wire, op, call);
  }
  if (are_summed_across(last_micro_step)) {
    mesh.replicate().all_reduce(stream, row_->gradient_shard(), op, call);
  }
  // What is stored has been summed over all ranks.
  complete_ = last_micro_step && (!pool_ || options_.sharding().replicates);
}
//! [landed]

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

void WholeGradients::give_back(const Event& free) {
  if (slot_ != nullptr) pool_->release(*std::exchange(slot_, nullptr), free);
}

void WholeGradients::forget(bool set_to_none) {
  if (!row_->trains()) return;
  give_back(context_.compute->record());  // of a step that was given up
  complete_ = false;
  landed_ = !set_to_none;
  row_->zero_grad(set_to_none);
  row_->show_gradients();
  if (!pool_) row_->forget_gradients();
  if (set_to_none && pool_) return;
  ops::fill(*context_.compute, {.x = row_->gradient_storage(), .value = 0});
}

void WholeGradients::settle() {
  if (!row_->trains() || !pool_ || landed_) return;
  ops::fill(*context_.compute, {.x = row_->gradient_shard(), .value = -0.0F});
}

}  // namespace nanofsdp::fsdp
