#include "comm/reading.h"

#include "comm/sum.h"

namespace nanofsdp::comm {

void ReadingGroup::all_gather(Stream& stream, const Operation& operation, Tensor in, Tensor out) {
  const auto& all = meet(stream, operation, in);
  for (int peer = 0; peer < size_; ++peer) {
    copy(stream, all[peer], out.slice(peer * operation.count, operation.count));
  }
  part(stream, out.bytes() - in.bytes());
}

void ReadingGroup::reduce_scatter(Stream& stream, const Operation& operation, Tensor in,
                                  Tensor out) {
  // In place, a rank writes its own chunk of `in`, which nobody else reads.
  std::vector<const void*> chunks;
  for (const void* theirs : meet(stream, operation, in)) {
    chunks.push_back(static_cast<const std::byte*>(theirs) + rank_ * out.bytes());
  }
  sum_in_rank_order(stream, chunks, out.raw(), out.numel(), out.dtype(), operation.reduce);
  part(stream, in.bytes() - out.bytes());
}

void ReadingGroup::broadcast(Stream& stream, const Operation& operation, Tensor x) {
  copy(stream, meet(stream, operation, x)[operation.root], x);
  part(stream, rank_ == operation.root ? 0 : x.bytes());
}

void ReadingGroup::barrier(Stream& stream, const Operation& operation) {
  meet(stream, operation, {});
  part(stream, 0);
}

}  // namespace nanofsdp::comm
