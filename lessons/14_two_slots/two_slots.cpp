#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <future>
#include <queue>
#include <utility>
#include <vector>

#include "frame/lesson.h"
#include "fsdp/buffer_pool.h"
#include "library.h"

// Lesson 14: the units take turns in two places in memory. The lesson shows why each place needs an
// event, and what it costs to allocate memory for each unit instead.

namespace {

using namespace nanofsdp;
using lesson::kClass, lesson::kNumel, lesson::kUnits, lesson::Pass;

//! [slots]
struct Slot {
  Tensor memory;
  Event free{};  // after it, the old content is not read any more
};

class Slots {
 public:
  Slots(Context& context, int count)
      : all_(context.ledger, kClass, count * kNumel * sizeof(float)) {
    for (int i = 0; i < count; ++i) {
      slots_.push_back({all_.tensor({count * kNumel}).slice(i * kNumel, kNumel)});
      free_.push(&slots_.back());
    }
  }
  Slot& acquire() {
    Slot& slot = *free_.front();  // the slot that was given back first
    free_.pop();
    return slot;
  }
  void release(Slot& slot, Event free) { slot.free = free, free_.push(&slot); }

 private:
  Buffer all_;
  std::deque<Slot> slots_;
  std::queue<Slot*> free_;  // slots that no unit holds
};
//! [slots]

// @param waits   whether a gather waits for its slot's event before it writes
// @param limit   how many gathers can finish before the first computation
template <class Pool>
Pass forward(Pool& pool, bool waits, int limit) {
  Pass pass;
  std::vector<Event> arrived;
  std::promise<void> start;
  lesson::Clock gather_clock, compute_clock;
  const auto gather = make_communication_stream(Device::cpu),
             compute = make_communication_stream(Device::cpu);
  compute->enqueue([&] { start.get_future().wait(); });
  //! [forward]
  for (int u = 0; u < kUnits; ++u) {
    auto& slot = pool.acquire();
    float* const memory = slot.memory.f32();
    if (waits) gather->wait(slot.free);
    gather->enqueue([&, u, memory] {  // stands for the all-gather
      memory[0] = static_cast<float>(u);
      pass.gathered[u] = gather_clock.work(memory[1]);
    });
    arrived.push_back(gather->record());
    compute->wait(arrived.back());
    compute->enqueue([&, u, memory] {  // stands for the unit's forward
      pass.read[u] = std::exchange(memory[0], NAN);
      pass.computed[u] = compute_clock.work(memory[1]);
    });
    pool.release(slot, compute->record());
  }
  //! [forward]
  arrived[limit - 1].synchronize();
  pass.ahead = static_cast<int>(std::ranges::count_if(arrived, &Event::ready));
  start.set_value();
  compute->synchronize();
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  lesson.print("slots   their bytes   gathers ahead   finished at");
  std::vector<Pass> passes;
  for (const int slots : {1, 2, 3}) {
    Context mine, library;
    Slots by_hand(mine, slots);
    fsdp::BufferPool pool(library, kClass, slots, kNumel);
    const Pass pass = forward(by_hand, true, slots), theirs = forward(pool, true, slots);
    lesson.print(fmt::format("{}{:>18}{:>16}{:>14}", slots, mine.ledger.total(), pass.ahead,
                             pass.computed.back()));
    lesson.claim(pass.read == std::vector<float>{0, 1, 2, 3, 4}, "every unit reads its own");
    lesson.claim(pass == theirs && mine.ledger.total() == library.ledger.total(), "as BufferPool");
    if (slots < 3) lesson.answer(pass.computed.back());
    passes.push_back(pass);
  }
  Context context;
  Slots slots(context, 2);
  lesson.print("2 slots: what units 0 to 4 read");
  lesson.print("waiting for the event  " + lesson::words(forward(slots, true, 2).read));
  const Pass blind = forward(slots, false, kUnits);
  lesson.print("not waiting for it     " + lesson::words(blind.read));
  lesson.claim(blind.ahead == kUnits, "nothing held the gathers back");

  lesson.print("3 passes     allocations   peak in bytes");
  const auto print = [&](const char* name, auto& pool, Context& of, int limit) {
    for (int pass = 0; pass < 3; ++pass) forward(pool, true, limit);
    lesson.print(
        fmt::format("{:<13}{:>11}{:>16}", name, of.ledger.allocations(), of.ledger.total_peak()));
  };
  Context one_by_one;
  lesson::Fresh fresh(one_by_one);
  print("2 slots", slots, context, 2);
  print("fresh memory", fresh, one_by_one, kUnits);

  lesson.print("full_shard, unsharded bytes      2 slots   a slot each");
  for (const int n_layer : {2, 4, 8}) {
    const lesson::Trained two = lesson::train(n_layer, true), each = lesson::train(n_layer, false);
    lesson.print(
        fmt::format("{} blocks and the root{:>19}{:>14}", n_layer, two.unsharded, each.unsharded));
    lesson.claim(two.weights == each.weights, "the same weights");
    lesson.claim(two.allocations + each.allocations == 0, "no allocation after step 1");
    if (n_layer == 8) lesson.answer(two.unsharded);
  }
  lesson.picture(lesson::drawing(passes));
  return lesson.end(
      "units read their own; BufferPool does the same; nothing is allocated after step 1");
}
