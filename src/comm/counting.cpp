#include "comm/counting.h"

namespace nanofsdp::comm {
namespace {
std::int64_t bytes_of(const Tensor& x) { return static_cast<std::int64_t>(x.bytes()); }
}  // namespace

Traffic Traffic::operator+(const Traffic& other) const {
  return {.all_gathers = all_gathers + other.all_gathers,
          .reduce_scatters = reduce_scatters + other.reduce_scatters,
          .all_reduces = all_reduces + other.all_reduces,
          .broadcasts = broadcasts + other.broadcasts,
          .bytes_sent = bytes_sent + other.bytes_sent,
          .bytes_received = bytes_received + other.bytes_received,
          .control = control + other.control};
}

Traffic Traffic::operator-(const Traffic& other) const {
  return {.all_gathers = all_gathers - other.all_gathers,
          .reduce_scatters = reduce_scatters - other.reduce_scatters,
          .all_reduces = all_reduces - other.all_reduces,
          .broadcasts = broadcasts - other.broadcasts,
          .bytes_sent = bytes_sent - other.bytes_sent,
          .bytes_received = bytes_received - other.bytes_received,
          .control = control - other.control};
}

void CountingCommunicator::count(const Call& call, std::int64_t Traffic::*operations,
                                 std::int64_t sent, std::int64_t received) {
  if (call.control) {
    ++traffic_.control;
    return;
  }
  ++(traffic_.*operations);
  traffic_.bytes_sent += sent;
  traffic_.bytes_received += received;
}

Event CountingCommunicator::all_gather(Stream& stream, Tensor in, Tensor out, const Call& call) {
  const std::int64_t bytes = (size() - 1) * bytes_of(in);
  count(call, &Traffic::all_gathers, bytes, bytes);
  return inner_->all_gather(stream, in, out, call);
}

Event CountingCommunicator::reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                                           const Call& call) {
  const std::int64_t bytes = (size() - 1) * bytes_of(out);
  count(call, &Traffic::reduce_scatters, bytes, bytes);
  return inner_->reduce_scatter(stream, in, out, op, call);
}

Event CountingCommunicator::all_reduce(Stream& stream, Tensor x, ReduceOp op, const Call& call) {
  const std::int64_t bytes = 2 * (size() - 1) * (bytes_of(x) / size());
  count(call, &Traffic::all_reduces, bytes, bytes);
  return inner_->all_reduce(stream, x, op, call);
}

Event CountingCommunicator::broadcast(Stream& stream, Tensor x, int root, const Call& call) {
  const bool is_root = rank() == root;
  count(call, &Traffic::broadcasts, is_root ? (size() - 1) * bytes_of(x) : 0,
        is_root ? 0 : bytes_of(x));
  return inner_->broadcast(stream, x, root, call);
}

Event CountingCommunicator::barrier(Stream& stream, const Call& call) {
  ++traffic_.control;
  return inner_->barrier(stream, call);
}

}  // namespace nanofsdp::comm
