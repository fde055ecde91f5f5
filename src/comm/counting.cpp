#include "comm/counting.h"

#include "comm/operation.h"

namespace nanofsdp::comm {
namespace {

// a + sign * b, field by field
Traffic combined(const Traffic& a, const Traffic& b, std::int64_t sign) {
  return {.all_gathers = a.all_gathers + sign * b.all_gathers,
          .reduce_scatters = a.reduce_scatters + sign * b.reduce_scatters,
          .all_reduces = a.all_reduces + sign * b.all_reduces,
          .broadcasts = a.broadcasts + sign * b.broadcasts,
          .bytes_sent = a.bytes_sent + sign * b.bytes_sent,
          .bytes_received = a.bytes_received + sign * b.bytes_received,
          .control = a.control + sign * b.control};
}

}  // namespace

Traffic Traffic::operator+(const Traffic& other) const { return combined(*this, other, 1); }
Traffic Traffic::operator-(const Traffic& other) const { return combined(*this, other, -1); }

void CountingCommunicator::count(bool control, std::int64_t Traffic::*operations, std::int64_t sent,
                                 std::int64_t received) {
  if (control) {
    ++traffic_.control;
    return;
  }
  ++(traffic_.*operations);
  traffic_.bytes_sent += sent;
  traffic_.bytes_received += received;
}

Event CountingCommunicator::run(Stream& stream, const Collective& collective) {
  static constexpr std::int64_t Traffic::*kOperations[] = {
      &Traffic::all_gathers, &Traffic::reduce_scatters, &Traffic::broadcasts, &Traffic::control};
  const Operation& of = collective.operation;
  const bool from_root = of.kind == Operation::Kind::broadcast;
  const bool is_root = from_root && of.root == rank();
  const std::int64_t chunk = of.count * static_cast<std::int64_t>(size_of(of.dtype));
  const std::int64_t others = (size() - 1) * chunk;  // 0 of a barrier
  const std::int64_t sent = from_root && !is_root ? 0 : others;
  const std::int64_t received = is_root ? 0 : from_root ? chunk : others;
  count(collective.control, kOperations[static_cast<int>(of.kind)], sent, received);
  return inner_->run(stream, collective);
}

Event CountingCommunicator::all_reduce(Stream& stream, Tensor x, ReduceOp op, const Call& call) {
  const std::int64_t bytes = 2 * (size() - 1) * (static_cast<std::int64_t>(x.bytes()) / size());
  count(call.control, &Traffic::all_reduces, bytes, bytes);
  return inner_->all_reduce(stream, x, op, call);
}

}  // namespace nanofsdp::comm
