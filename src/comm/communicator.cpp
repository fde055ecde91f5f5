#include "comm/communicator.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "comm/operation.h"

namespace nanofsdp::comm {
namespace {

using Kind = Operation::Kind;

// Requires that `part` is part `place` of `whole`, or memory apart from it.
void check_place(const Tensor& part, const Tensor& whole, int place, const char* what) {
  const Address a = part.address(), b = whole.address();
  const bool same = part.dtype() == whole.dtype();
  const bool in_place = same && a == b + static_cast<std::uint64_t>(place) * part.bytes();
  const bool apart = part.bytes() == 0 || a + part.bytes() <= b || b + whole.bytes() <= a;
  NANOFSDP_CHECK_SHAPE(in_place || apart, .what = what,
                       .expected = "the rank's own chunk of the whole, or memory apart from it",
                       .got = "operands that overlap otherwise");
}

void check_chunks(const Communicator& comm, const Tensor& chunk, const Tensor& whole,
                  const char* what, bool widens = false) {
  const bool same = chunk.dtype() == whole.dtype() || (widens && chunk.dtype() == DType::float32);
  NANOFSDP_CHECK_SHAPE(whole.numel() == comm.size() * chunk.numel() && same, .what = what,
                       .expected = fmt::format("{} ranks x {} {}", comm.size(), chunk.numel(),
                                               name_of(chunk.dtype())),
                       .got = fmt::format("{} {}", whole.numel(), name_of(whole.dtype())),
                       .hint = "pad to equal chunks");
  check_place(chunk, whole, comm.rank(), what);
}

// The bytes of the other ranks' chunks. All have the size of `chunk`.
std::int64_t bytes_of_others(const Communicator& comm, const Tensor& chunk) {
  return (comm.size() - 1) * static_cast<std::int64_t>(chunk.bytes());
}

}  // namespace

std::shared_ptr<void> Communicator::busy(const std::string& at) {
  work(1, at);
  return {nullptr, [this](void*) { work(-1, ""); }};
}

void Communicator::count(const Call& call, const Traffic& traffic) {
  traffic_ = traffic_ + (call.control ? Traffic{.control = 1} : traffic);
}

Event Communicator::all_gather(Stream& stream, Tensor in, Tensor out, const Call& call) {
  check_chunks(*this, in, out, "all_gather: in and out");
  const std::int64_t bytes = bytes_of_others(*this, in);
  count(call, {.all_gathers = 1, .bytes_sent = bytes, .bytes_received = bytes});
  return run(stream, operation_of(Kind::all_gather, in, call), in, out);
}

Event Communicator::reduce_scatter(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                                   const Call& call) {
  check_chunks(*this, out, in, "sum over ranks: out and in", /*widens=*/true);
  NANOFSDP_CHECK_SHAPE(in.dtype() == DType::float32 || in.dtype() == DType::bfloat16,
                       .what = "sum over ranks: in", .expected = "float32 or bfloat16",
                       .got = std::string(name_of(in.dtype())));
  const Tensor sent = in.slice(0, out.numel());
  const std::int64_t bytes = bytes_of_others(*this, sent);
  count(call, {.reduce_scatters = 1, .bytes_sent = bytes, .bytes_received = bytes});
  return run(stream, operation_of(Kind::reduce_scatter, sent, call, op), in, out);
}

Event Communicator::broadcast(Stream& stream, Tensor x, int root, const Call& call) {
  NANOFSDP_CHECK_SHAPE(root >= 0 && root < size(), .what = "broadcast: root",
                       .expected = fmt::format("a rank below {}", size()),
                       .got = fmt::format("{}", root));
  const auto received = static_cast<std::int64_t>(root == rank() ? 0 : x.bytes());
  const std::int64_t sent = root == rank() ? bytes_of_others(*this, x) : 0;
  count(call, {.broadcasts = 1, .bytes_sent = sent, .bytes_received = received});
  return run(stream, operation_of(Kind::broadcast, x, call, ReduceOp::sum, root), x, x);
}

Event Communicator::barrier(Stream& stream, const Call& call) {
  count(call, {.control = 1});
  return run(stream, operation_of(Kind::barrier, {}, call), {}, {});
}

Event Communicator::all_reduce(Stream& stream, Tensor in, Tensor out, ReduceOp op,
                               const Call& call) {
  check_place(out, in, 0, "all_reduce: out and in");
  const Tensor mine = own_chunk(out);
  check_chunks(*this, mine, out, "all_reduce: out");  // before the first half begins
  const Traffic before = traffic_;
  reduce_scatter(stream, in, mine, op, call);
  const Event done = all_gather(stream, mine, out, call);
  const std::int64_t bytes = std::exchange(traffic_, before).bytes_sent - before.bytes_sent;
  count(call, {.all_reduces = 1, .bytes_sent = bytes, .bytes_received = bytes});
  return done;
}

}  // namespace nanofsdp::comm
