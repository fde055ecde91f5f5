#include "fsdp/storage.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/copy_chunks.h"
#include "ops/elementwise.h"

namespace nanofsdp::fsdp {
SlotCounts pool_slots(const Options& options, std::int64_t blocks, int depth,
                      std::int64_t staying) {
  const std::int64_t around = std::max(depth, 1);
  const std::int64_t ahead = staying + around + std::max(1, options.forward_prefetch);
  SlotCounts most{.parameters = blocks, .gradients = blocks};
  if (options.pool && options.sharding().parameters) most.parameters = std::min(blocks, ahead);
  if (options.pool && !options.accumulates()) most.gradients = std::min(blocks, around + 1);
  return most;
}

void WholeMemory::allocate(Context& context, MemoryClass of, std::int64_t slots, DType whole) {
  if (unit_numel + root_numel > 0) {
    units.emplace(context, of, slots, unit_numel, whole);
    root.emplace(context, of, 1, root_numel, whole);
  }
  wire = context.buffer(MemoryClass::communication, wire_bytes, DType::float8_e4m3);
}

Wire WholeMemory::wire_for(DType sent_as, const Options& options, const Layout& layout, DType whole,
                           bool near) {
  const bool copies = options.copies() && !near, messages = sent_as == DType::float8_e4m3;
  const std::int64_t row = copies ? layout.padded_numel() : layout.whole_numel();
  const std::int64_t shard = row / layout.world_size();
  if (near && messages) sent_as = whole;  // a slice has parts of blocks
  std::int64_t numel = copies || sent_as != whole ? row : 0;
  if (messages && !near) numel = layout.world_size() * ops::float8_bytes(shard);
  wire_bytes = std::max(wire_bytes, numel * static_cast<std::int64_t>(size_of(sent_as)));
  return {.memory = wire.bytes() == 0 ? Tensor() : wire.tensor({numel}, sent_as),
          .layout = copies ? &layout : nullptr,
          .shard_numel = shard};
}

void WholeMemory::shrink() {
  for (auto* pool : {&units, &root})
    if (*pool) (*pool)->shrink();
}

WholeParameters::WholeParameters(Context& context, const Options& options, comm::Mesh& mesh,
                                 std::span<ShardedParameters> rows, WholeMemory& memory,
                                 bool is_root)
    : options_(options),
      mesh_(mesh),
      computed_(compute_dtype(options.precision, context.device)),
      pool_(is_root ? memory.root : memory.units),
      memory_(memory) {
  std::int64_t numel = 0;
  for (ShardedParameters& row : rows) {
    // If nothing is gathered, each rank widens bfloat16 itself.
    const DType frozen = needs_all_gather() ? DType::bfloat16 : computed_;
    const bool rounded = row.dtype() != DType::float32;
    const DType sent_as = rounded ? frozen : options.precision.param_dtype;
    parts_.push_back(
        {&row, options.borrows_parameters(row.dtype(), computed_), sent_as, /*begin=*/numel});
    if (parts_.back().borrows) numel += row.layout().whole_numel();
    memory.wire_for(sent_as, options, row.layout(), computed_);
  }
  std::int64_t& largest = is_root ? memory.root_numel : memory.unit_numel;
  largest = std::max(largest, numel);
  if (mesh.post_forward() == nullptr || is_root) return;
  slice_ = context.buffer(MemoryClass::unsharded_parameters, numel / mesh.post_forward()->size(),
                          computed_);
}

bool WholeParameters::is_fresh(const Part& part) const {
  const bool stored = !part.borrows && !needs_all_gather();
  return stored || part.row->parameters().empty() || part.shown_version == part.row->version();
}

bool WholeParameters::are_fresh() const {
  return std::ranges::all_of(parts_, [this](const Part& part) { return is_fresh(part); });
}

void WholeParameters::take(Stream& stream) {
  if (!pool_ || slot_ != nullptr) return;
  slot_ = &pool_->acquire();
  stream.wait(slot_->free);
  stream.wait(slice_written_);
}

Tensor WholeParameters::whole(const Part& part) const {
  if (slot_ == nullptr || !part.borrows) return part.row->parameter_storage();
  return slot_->memory.slice(part.begin, part.row->layout().whole_numel());
}

void WholeParameters::gather(Stream& stream, const comm::Call& call) {
  comm::Communicator* const all = needs_all_gather() ? &mesh_.gather() : nullptr;
  for (Part& part : parts_) {
    if (is_fresh(part)) continue;
    const bool near = part.slice_version == part.row->version();
    const Wire wire = memory_.wire_for(part.sent_as, options_, part.row->layout(), computed_, near);
    const Tensor mine =
        near ? slice(part) : part.row->shards_to_gather(stream, mesh_.replicate(), call.unit);
    all_gather(stream, near ? mesh_.post_forward() : all, mine, whole(part), wire, call);
    part.shown_version = part.row->version();
  }
}

Tensor WholeParameters::slice(const Part& part) const {
  const std::int64_t ranks = mesh_.post_forward()->size();
  const auto offset = static_cast<std::uint64_t>(part.begin / ranks) * size_of(computed_);
  return slice_.tensor({part.row->layout().whole_numel() / ranks}, computed_, offset);
}

//! [keep_slice]
void WholeParameters::keep_slice(Stream& stream) {
  if (slice_.bytes() == 0) return;
  for (Part& part : parts_) {
    const Tensor mine = slice(part);
    const std::int64_t begin = mesh_.post_forward()->rank() * mine.numel();
    ops::copy(stream, {.in = whole(part).slice(begin, mine.numel()), .out = mine});
    part.slice_version = part.shown_version;
  }
  slice_written_ = stream.record();
}
//! [keep_slice]

void WholeParameters::show() {
  for (const Part& part : parts_) part.row->show_parameters(whole(part));
}

bool WholeParameters::are_discarded(bool keep) const {
  return !keep && options_.sharding().parameters && slot_ != nullptr;
}

void WholeParameters::discard(Stream& stream) {
  for (Part& part : parts_) {
    part.row->show_parameters();
    part.shown_version = 0;
  }
  if (options_.poison) ops::fill(stream, {.x = slot_->memory, .value = std::nanf("")});
  pool_->release(*std::exchange(slot_, nullptr), stream.record());
}

WholeGradients::WholeGradients(Context& context, const Options& options, ShardedParameters& row,
                               WholeMemory& memory, bool is_root)
    : context_(context),
      options_(options),
      row_(&row),
      pool_(is_root ? memory.root : memory.units),
      memory_(memory) {
  if (!row.trains()) return;
  row.show_gradients({}, /*rests=*/true);
  std::int64_t& largest = is_root ? memory.root_numel : memory.unit_numel;
  if (row.at_rest().gradients) largest = std::max(largest, numel());
  memory.wire_for(options.precision.reduce_dtype, options, row.layout());
}

bool WholeGradients::are_due(Reduction how) const {
  const bool here = slot_ != nullptr || !options_.sharding().parameters;
  return row_->trains() && !complete_ && ((how.across && landed_) || (how.in_group && here));
}

void WholeGradients::begin_backward() {
  const bool trains = std::ranges::any_of(row_->parameters(), &nn::Parameter::requires_grad);
  NANOFSDP_CHECK(!complete_ || !trains, .what = "backward",
                 .expected = "zero_grad after the last micro-step",
                 .got = "gradients that are sums over ranks already",
                 .hint = "they would be summed once more");
  if (!pool_ && !complete_) row_->set_reduced(false);
}

//! [take]
Event WholeGradients::take() {
  if (!pool_ || slot_ != nullptr) return {};
  slot_ = &pool_->acquire();
  zeroed_ = false;
  return slot_->free;
}

void WholeGradients::show() {
  if (!std::exchange(zeroed_, true)) {
    ops::fill(*context_.compute, {.x = whole(), .value = 0});
    row_->forget_gradients();
  }
  row_->show_gradients(whole());
}
//! [take]

Tensor WholeGradients::whole() const {
  return slot_ == nullptr ? row_->gradient_storage() : slot_->memory.slice(0, numel());
}

//! [landed]
void WholeGradients::reduce(Stream& stream, comm::Mesh& mesh, Reduction how,
                            const comm::Call& call) {
  const Wire wire = memory_.wire_for(options_.precision.reduce_dtype, options_, row_->layout());
  const comm::ReduceOp op = options_.reduction;
  if (how.in_group && options_.sharding().optimizer)
    land(stream, reduce_scatter(stream, mesh.reduce(), whole(), wire, op, call));
  else if (how.in_group)
    all_reduce(stream, mesh.reduce(), whole(), wire, op, call);
  // Groups add up their shards once in a step, when the shard has all micro-steps.
  comm::Communicator& replicas = mesh.replicate();
  const Tensor stored = row_->gradient_storage(), own = row_->gradient_shard();
  const bool splits = options_.sharding().splits_update;
  if (how.across && !splits) replicas.all_reduce(stream, stored, op, call);
  if (how.across && splits) replicas.reduce_scatter(stream, stored, own, op, call);
  // The stored gradients are now sums over all ranks.
  complete_ = how.across || !pool_;
  if (options_.sharding().replicates) row_->set_reduced(how.across);
}
//! [landed]

//! [land]
void WholeGradients::land(Stream& stream, Tensor chunk) {
  if (slot_ == nullptr) return;  // the chunk is a part of the shard already
  const Tensor shard = row_->gradient_storage();
  if (std::exchange(landed_, true)) return ops::accumulate(stream, {.in = chunk, .out = shard});
  ops::copy(stream, {.in = chunk, .out = shard});
}
//! [land]

void WholeGradients::give_back(const Event& free) {
  if (slot_ != nullptr) pool_->release(*std::exchange(slot_, nullptr), free);
  row_->show_gradients({}, /*rests=*/true);
}

void WholeGradients::forget(bool set_to_none) {
  if (!row_->trains()) return;
  give_back(context_.compute->record());  // the step was given up
  complete_ = landed_ = zeroed_ = false;
  row_->zero_grad(set_to_none);
}

}  // namespace nanofsdp::fsdp
