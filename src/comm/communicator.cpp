#include "comm/communicator.h"

#include <fmt/format.h>

#include "base/check.h"
#include "comm/operation.h"

namespace nanofsdp::comm {
namespace {

using Kind = Operation::Kind;

void check_chunks(const Communicator& comm, const Tensor& chunk, const Tensor& whole,
                  const char* what) {
  NANOFSDP_CHECK_SHAPE(
      whole.numel() == comm.size() * chunk.numel() && whole.dtype() == chunk.dtype(), .what = what,
      .expected =
          fmt::format("{} ranks x {} {}", comm.size(), chunk.numel(), name_of(chunk.dtype())),
      .got = fmt::format("{} {}", whole.numel(), name_of(whole.dtype())),
      .hint = "pad to equal chunks");
  const Address a = chunk.address(), b = whole.address();
  const bool in_place = a == b + static_cast<std::uint64_t>(comm.rank()) * chunk.bytes();
  const bool apart = chunk.bytes() == 0 || a + chunk.bytes() <= b || b + whole.bytes() <= a;
  NANOFSDP_CHECK_SHAPE(in_place || apart, .what = what,
                       .expected = "the rank's own chunk of the whole, or memory apart from it",
                       .got = "operands that overlap otherwise");
}

void check_addends(const Tensor& in) {
  NANOFSDP_CHECK_SHAPE(in.dtype() == DType::float32 || in.dtype() == DType::bfloat16,
                       .what = "reduce_scatter: in", .expected = "float32 or bfloat16",
                       .got = std::string(name_of(in.dtype())));
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
  check_chunks(*this, out, in, "reduce_scatter: out and in");
  check_addends(in);
  const std::int64_t bytes = bytes_of_others(*this, out);
  count(call, {.reduce_scatters = 1, .bytes_sent = bytes, .bytes_received = bytes});
  return run(stream, operation_of(Kind::reduce_scatter, out, call, op), in, out);
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

Event Communicator::all_reduce(Stream& stream, Tensor x, ReduceOp op, const Call& call) {
  NANOFSDP_CHECK_SHAPE(x.numel() % size() == 0, .what = "all_reduce: x",
                       .expected = fmt::format("a multiple of {} ranks", size()),
                       .got = fmt::format("{} elements", x.numel()), .hint = "pad it with zeros");
  check_addends(x);
  const std::int64_t n = x.numel() / size();
  const Tensor mine = x.slice(rank() * n, n);
  const std::int64_t bytes = 2 * bytes_of_others(*this, mine);
  count(call, {.all_reduces = 1, .bytes_sent = bytes, .bytes_received = bytes});
  run(stream, operation_of(Kind::reduce_scatter, mine, call, op), x, mine);
  return run(stream, operation_of(Kind::all_gather, mine, call), mine, x);
}

}  // namespace nanofsdp::comm
