#include "comm/communicator.h"

#include <fmt/format.h>

#include "base/check.h"
#include "comm/operation.h"

namespace nanofsdp::comm {
namespace {

using Kind = Operation::Kind;

// Whether `chunk` is chunk `rank` of `whole`, or the two share no byte.
bool in_place_or_apart(const Tensor& chunk, const Tensor& whole, int rank) {
  if (chunk.bytes() == 0) return true;
  const Address a = chunk.address(), b = whole.address();
  if (a == b + static_cast<std::uint64_t>(rank) * chunk.bytes()) return true;
  return a + chunk.bytes() <= b || b + whole.bytes() <= a;
}

void check_chunks(const Communicator& comm, const Tensor& chunk, const Tensor& whole,
                  const char* what) {
  NANOFSDP_CHECK_SHAPE(
      whole.numel() == comm.size() * chunk.numel() && whole.dtype() == chunk.dtype(), .what = what,
      .expected =
          fmt::format("{} ranks x {} {}", comm.size(), chunk.numel(), name_of(chunk.dtype())),
      .got = fmt::format("{} {}", whole.numel(), name_of(whole.dtype())),
      .hint = "pad to equal chunks");
  NANOFSDP_CHECK_SHAPE(in_place_or_apart(chunk, whole, comm.rank()), .what = what,
                       .expected = "the rank's own chunk of the whole, or memory apart from it",
                       .got = "operands that overlap otherwise");
}

}  // namespace

std::shared_ptr<void> Communicator::busy(const std::string& at) {
  work(1, at);
  return {nullptr, [this](void*) { work(-1, ""); }};
}

// Counts the call, then runs it.
Event Communicator::issue(Stream& stream, const Operation& of, Tensor in, Tensor out,
                          const Call& call) {
  if (call.control) return ++traffic_.control, run(stream, of, in, out);
  static constexpr std::int64_t Traffic::*kOperations[] = {
      &Traffic::all_gathers, &Traffic::reduce_scatters, &Traffic::broadcasts, &Traffic::control};
  const bool from_root = of.kind == Kind::broadcast, is_root = from_root && of.root == rank();
  const std::int64_t chunk = of.count * static_cast<std::int64_t>(size_of(of.dtype));
  const std::int64_t others = (size() - 1) * chunk;  // 0 for a barrier
  ++(traffic_.*kOperations[static_cast<int>(of.kind)]);
  traffic_.bytes_sent += from_root && !is_root ? 0 : others;
  traffic_.bytes_received += is_root ? 0 : from_root ? chunk : others;
  return run(stream, of, in, out);
}

Event Communicator::all_gather(Stream& stream, Tensor in, Tensor out, const Call& call) {
  check_chunks(*this, in, out, "all_gather: in and out");
  return issue(stream, operation_of(Kind::all_gather, in, call), in, out, call);
}

Event Communicator::reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                                   const Call& call) {
  check_chunks(*this, out, in, "reduce_scatter: out and in");
  NANOFSDP_CHECK_SHAPE(in.dtype() == DType::float32 || in.dtype() == DType::bfloat16,
                       .what = "reduce_scatter: in", .expected = "float32 or bfloat16",
                       .got = std::string(name_of(in.dtype())));
  Operation operation = operation_of(Kind::reduce_scatter, out, call);
  operation.reduce = op;
  return issue(stream, operation, in, out, call);
}

Event Communicator::broadcast(Stream& stream, Tensor x, int root, const Call& call) {
  NANOFSDP_CHECK_SHAPE(root >= 0 && root < size(), .what = "broadcast: root",
                       .expected = fmt::format("a rank below {}", size()),
                       .got = fmt::format("{}", root));
  Operation operation = operation_of(Kind::broadcast, x, call);
  operation.root = root;
  return issue(stream, operation, x, x, call);
}

Event Communicator::barrier(Stream& stream, const Call& call) {
  return issue(stream, operation_of(Kind::barrier, {}, call), {}, {}, call);
}

Event Communicator::all_reduce(Stream& stream, Tensor x, ReduceOp op, const Call& call) {
  NANOFSDP_CHECK_SHAPE(x.numel() % size() == 0, .what = "all_reduce: x",
                       .expected = fmt::format("a multiple of {} ranks", size()),
                       .got = fmt::format("{} elements", x.numel()), .hint = "pad it with zeros");
  const std::int64_t n = x.numel() / size();
  const Tensor mine = x.slice(rank() * n, n);
  reduce_scatter(stream, x, mine, op, call);
  const Event done = all_gather(stream, mine, x, call);
  // Both calls together count as one operation.
  --(call.control ? traffic_.control : traffic_.all_gathers);
  if (!call.control) --traffic_.reduce_scatters, ++traffic_.all_reduces;
  return done;
}

}  // namespace nanofsdp::comm
