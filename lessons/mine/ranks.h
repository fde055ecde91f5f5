#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "comm/communicator.h"
#include "comm/operation.h"
#include "frame/mailbox.h"
#include "pieces.h"

/// @file
/// @brief The connections between the ranks of the machine, which are threads: mailboxes for the
/// ring of lesson 04, and a board on which ranks show each other rounded gradients, for lesson 15.

namespace lesson::mine {

using namespace nanofsdp;

/// The data that all ranks share.
struct Between {
  explicit Between(int W) : mailboxes(W), board(W), files(W) {}
  std::vector<Mailbox> mailboxes;            // one for each rank
  std::vector<std::vector<bfloat16>> board;  // one row for each rank
  // The shards of each rank, as it has saved them.
  std::vector<std::vector<std::vector<float>>> files;
};

/// The place of a rank in the ring.
class Ring final : public Neighbours {
 public:
  Ring(Between& between, int rank, int W)
      : next_(between.mailboxes[(rank + 1) % W]), mine_(between.mailboxes[rank]) {}
  void send(std::span<const float> chunk) override { next_.put(chunk); }
  std::span<const float> receive() override {
    received_ = mine_.take(std::chrono::seconds(5));
    if (received_.empty()) {
      throw std::runtime_error("lesson 04: a rank waited for a message in vain");
    }
    return received_;
  }

 private:
  Mailbox &next_, &mine_;
  std::vector<float> received_;
};

/// Connects the ranks as `inner` does, but reduces gradients in bfloat16, by lesson 15's piece.
class Rounding final : public comm::Communicator {
 public:
  Rounding(comm::Communicator& inner, Between& between, decltype(Pieces::average) average)
      : Communicator(inner.rank(), inner.size()),
        inner_(inner),
        between_(between),
        average_(average) {}

  /// Sent by gathers and reductions.
  std::int64_t bytes_sent() const { return traffic().bytes_sent - saved_; }

  nanofsdp::Event run(Stream& stream, const comm::Operation& operation, Tensor in,
                      Tensor out) override {
    if (operation.kind != comm::Operation::Kind::reduce_scatter) {
      return inner_.run(stream, operation, in, out);
    }
    std::vector<bfloat16>& row = between_.board[static_cast<std::size_t>(rank())];
    row.resize(static_cast<std::size_t>(in.numel()));
    std::ranges::transform(in.span<float>(), row.begin(), to_bfloat16);
    stream.wait(inner_.barrier(stream));  // now every rank shows its row
    const std::int64_t n = out.numel(), begin = rank() * n;
    std::vector<std::vector<bfloat16>> chunks;
    for (const std::vector<bfloat16>& of_rank : between_.board) {
      chunks.emplace_back(of_rank.begin() + begin, of_rank.begin() + begin + n);
    }
    std::vector<float> mean(static_cast<std::size_t>(n));
    average_(chunks, mean);
    const bool sums = operation.reduce == comm::ReduceOp::sum;
    const float times = sums ? static_cast<float>(size()) : 1.0f;
    std::ranges::transform(mean, out.f32(), [&](float x) { return times * x; });
    saved_ += (size() - 1) * n * static_cast<std::int64_t>(sizeof(float) - sizeof(bfloat16));
    return inner_.barrier(stream);  // now every rank has read
  }

  std::unique_ptr<comm::Communicator> split(int color) override { return inner_.split(color); }
  void work(int begins, const std::string& at) override { inner_.work(begins, at); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 private:
  comm::Communicator& inner_;
  Between& between_;
  decltype(Pieces::average) average_;
  std::int64_t saved_ = 0;  // bytes that bfloat16 has saved
};

}  // namespace lesson::mine
