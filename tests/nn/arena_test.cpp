#include "nn/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace nanofsdp::nn {
namespace {

// A tensor that is held, and the number with which it was filled.
struct Held {
  Tensor tensor;
  float number;
};

std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// A random program of one pass: tensors, and scopes that keep one of their tensors, an older
// tensor, or none. Every tensor keeps its values until its scope ends, even if it has moved.
class Program {
 public:
  Program(Context& context, Arena& arena, unsigned seed)
      : context_(context), arena_(arena), random_(seed) {}

  void scope(int depth) {
    const std::size_t before = held_.size();
    const Arena::Position begin = arena_.position();
    const auto steps = static_cast<int>(random_() % 5);
    for (int i = 0; i < steps; ++i) {
      if (depth > 0 && random_() % 3 == 0) scope(depth - 1);
      allocate();
      look();
    }
    if (depth == 3 || random_() % 4 == 0) return;  // the allocated tensors stay
    const Held kept = held_.empty() ? Held{} : held_[random_() % held_.size()];
    const bool is_own =
        std::ranges::any_of(held_.begin() + static_cast<std::ptrdiff_t>(before), held_.end(),
                            [&](const Held& one) { return one.tensor.raw() == kept.tensor.raw(); });
    const Tensor moved = arena_.keep(begin, kept.tensor);
    EXPECT_TRUE(is_own || moved.raw() == kept.tensor.raw());
    const auto most = begin + static_cast<std::uint64_t>(
                                  is_own ? aligned(static_cast<std::int64_t>(moved.bytes())) : 0);
    EXPECT_LE(arena_.position(), most + most / 64 + 64);
    held_.resize(before);
    if (is_own) held_.push_back({moved, kept.number});
    look();
  }

  const std::vector<Arena::Position>& positions() const { return positions_; }
  std::uint64_t most = 0;

 private:
  void allocate() {
    const auto numel = static_cast<std::int64_t>(1 + random_() % (random_() % 3 == 0 ? 9000 : 90));
    const Held& one = held_.emplace_back(
        Held{arena_.allocate({numel}, DType::float32), static_cast<float>(++number_)});
    std::ranges::fill(one.tensor.span<float>(), one.number);
    most = std::max(most, arena_.position());
  }

  void look() {
    positions_.push_back(arena_.position());
    for (const Held& one : held_) {
      for (const float x : one.tensor.span<float>()) ASSERT_EQ(x, one.number);
    }
    const MemoryCount count = context_.ledger.count(MemoryClass::activations);
    ASSERT_GE(count.reserved, static_cast<std::int64_t>(arena_.position()));
  }

  Context& context_;
  Arena& arena_;
  std::minstd_rand random_;
  std::vector<Held> held_;
  std::vector<Arena::Position> positions_;
  int number_ = 0;
};

// The first pass takes exactly the bytes that are held at each moment. Then one block has the most
// bytes that were held, and the same pass holds the same bytes at each moment and allocates
// nothing.
TEST(Arena, TakesWhatIsHeldAtATime) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Context context;
    Arena arena(context);
    const auto count = [&] { return context.ledger.count(MemoryClass::activations); };
    Program first(context, arena, seed);
    first.scope(3);
    EXPECT_EQ(count().reserved_peak, static_cast<std::int64_t>(first.most));
    arena.reset();
    EXPECT_EQ(count().reserved, static_cast<std::int64_t>(first.most));
    const std::int64_t allocations = context.ledger.allocations();
    Program second(context, arena, seed);
    second.scope(3);
    EXPECT_EQ(second.positions(), first.positions());
    arena.reset();
    EXPECT_EQ(context.ledger.allocations(), allocations);
    Program other(context, arena, seed + 1000);  // lies partly in the block, partly beside it
    other.scope(3);
    arena.reset();
    EXPECT_EQ(count().reserved, static_cast<std::int64_t>(std::max(first.most, other.most)));
    arena.clear();
    EXPECT_EQ(count().reserved, 0);
    arena.allocate({16}, DType::float32);
    arena.reset();
    EXPECT_EQ(count().reserved, 64) << "clear() forgets how much was held";
    if (HasFatalFailure()) return;
  }
}

// A result that begins a few bytes behind its place would need a copy in very many steps.
TEST(Arena, LeavesALargeResultBehindALittleWhereItIs) {
  Context context;
  Arena arena(context);
  for (int pass = 0; pass < 2; ++pass) {
    arena.allocate({16}, DType::float32);
    const Arena::Position begin = arena.position();
    arena.allocate({16}, DType::float32);
    const Tensor large = arena.allocate({64 * 16 + 16}, DType::float32);
    arena.allocate({500}, DType::float32);
    EXPECT_EQ(arena.keep(begin, large).raw(), large.raw());
    EXPECT_EQ(arena.position(), begin + 64 + 65 * 64);
    arena.reset();
  }
}

// A module may return a part of a tensor of its own. The next allocation is aligned all the same.
TEST(Arena, AlignsWhatComesBehindAKeptSlice) {
  Context context;
  Arena arena(context);
  for (int pass = 0; pass < 2; ++pass) {  // the second one lies in one block
    for (const std::int64_t first : {1, 15, 16, 17}) {
      const Arena::Position begin = arena.position();
      const Tensor all = arena.allocate({3000}, DType::float32);
      const Tensor kept = arena.keep(begin, all.slice(first, 3000 - first));
      EXPECT_EQ(kept.raw(), all.slice(first, 1).raw());  // it lies too near to be moved
      EXPECT_EQ(arena.allocate({4}, DType::float32).address() % 64, 0U) << first;
      EXPECT_GE(arena.position(), begin + 12000);
    }
    arena.reset();
  }
}

}  // namespace
}  // namespace nanofsdp::nn
