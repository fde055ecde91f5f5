#include "mystery.h"
#include "run.h"

// Mysteries 1 to 6 are about memory.

namespace lesson::mystery {
namespace {

// Puts rank 0's peak of every class into a column.
void put_peaks(Table& table, int column, Context& context) {
  if (context.rank != 0) return;
  std::int64_t sum = 0;
  for (const MemoryClass kind : kShown) {
    const std::int64_t bytes = context.ledger.count(kind).reserved_peak;
    table.put(words(kind), column, fmt::format("{}", bytes));
    sum += bytes;
  }
  table.put("sum", column, fmt::format("{}", sum));
}

std::vector<std::string> with_sum() {
  std::vector<std::string> rows = shown_words();
  rows.push_back("sum");
  return rows;
}

// Makes two steps on W ranks, with Adam.
void train(Table& table, int column, int W, const gpt::GPTConfig& config,
           const fsdp::Options& options, int post_forward = 0,
           const std::function<void(gpt::GPT&)>& prepare = nullptr) {
  comm::launch_threads(W, 1, [&](Context& context, auto world) {
    Rank rank(context, std::move(world), config, options, post_forward, prepare);
    fsdp::AdamW optimizer(context, rank.sharded.units(), {});
    for (int step = 0; step < 2; ++step) {
      rank.sharded.zero_grad();
      for (const bool last : {false, true}) rank.forward_backward(context.rank, 1, 64, last);
      optimizer.step(1e-3, rank.sharded.clip(1));
    }
    put_peaks(table, column, context);
  });
}

std::string does_not_fall() {
  Table table;
  int column = 0;
  for (const int W : {1, 2, 4}) train(table, column++, W, small(), {});
  return table.text("peak bytes of rank 0", {"1 rank", "2 ranks", "4 ranks"}, with_sum());
}

std::string more_than_used() {
  Table table;
  comm::launch_threads(2, 1, [&](Context& context, auto world) {
    Rank rank(context, std::move(world), small(8), {.pool = false, .wrap_policy = is_block});
    for (int step = 0; step < 3; ++step) {
      rank.sharded.zero_grad();
      rank.forward_backward(context.rank, 1, 32);
      if (context.rank != 0) continue;
      for (const auto kind :
           {MemoryClass::unsharded_parameters, MemoryClass::unsharded_gradients}) {
        const MemoryCount count = context.ledger.count(kind);
        table.put(words(kind) + " reserved", step, fmt::format("{}", count.reserved_peak));
        table.put(words(kind) + " in use", step, fmt::format("{}", count.in_use_peak));
      }
    }
  });
  return table.text("peak bytes of rank 0, after", {"step 1", "step 2", "step 3"}, table.order());
}

std::string far_ahead() {
  Table table;
  std::string order;
  comm::launch_threads(2, 1, [&](Context& context, auto world) {
    // This is the user's code: slots for four units ahead. From block 1 on, it asks for four.
    Rank rank(context, std::move(world), small(6),
              {.forward_prefetch = 4, .wrap_policy = is_block});
    const auto block = [&](std::size_t i) { return rank.model.blocks()[i].get(); };
    rank.sharded.set_modules_to_forward_prefetch(rank.model, {block(0)});
    rank.sharded.set_modules_to_forward_prefetch(*block(0), {block(1)});
    rank.sharded.set_modules_to_forward_prefetch(*block(1),
                                                 {block(2), block(3), block(4), block(5)});
    rank.forward_backward(context.rank, 1, 32);
    rank.sharded.zero_grad();
    context.tracer.start();
    rank.forward_backward(context.rank, 1, 32);
    context.tracer.stop();
    if (context.rank != 0) return;
    for (const std::string& event : context.tracer.take_order()) {
      const std::string verb = event.substr(0, event.find('.'));
      if (verb == "u" || verb == "r") continue;  // it finds a whole copy, or keeps it
      order += (order.empty() ? "" : " ") + verb + "." + short_name(event.substr(verb.size() + 1));
    }
    put_peaks(table, 0, context);
  });
  return "U.x: unit x is gathered. F.x: its forward. R.x: it is discarded. RS.x: reduced.\n  " +
         order + "\n" + table.text("peak bytes", {"rank 0"}, with_sum());
}

std::string kept_slices() {
  Table table;
  int column = 0;
  for (const int blocks : {2, 4, 8}) {
    train(table, column++, 4, small(blocks), {.wrap_policy = is_block}, 2);
  }
  return table.text("peak bytes, 4 ranks", {"2 blocks", "4 blocks", "8 blocks"}, with_sum());
}

std::string whole_gradients() {
  Table table;
  int column = 0;
  for (const bool no_sync : {false, true}) {
    train(table, column++, 4, small(8), {.no_sync = no_sync, .wrap_policy = is_block});
  }
  return table.text("peak bytes, 4 ranks", {"before", "after"}, with_sum());
}

std::string not_frozen() {
  Table table;
  comm::launch_threads(2, 1, [&](Context& context, auto world) {
    const auto freeze = [](gpt::GPT& model) {
      for (nn::Parameter* p : model.named_parameters()) {
        p->requires_grad =
            p->name.find("h.2") != std::string::npos || p->name.find("ln_f") != std::string::npos;
      }
    };
    Rank rank(context, std::move(world), small(), {.wrap_policy = is_block}, 0, freeze);
    // The user trains only ln_f.
    Descent optimizer(context, rank.sharded.units(), [](const fsdp::Update& u) {
      return u.parameter.name.find("ln_f") != std::string::npos;
    });
    rank.sharded.zero_grad();
    rank.forward_backward(context.rank, 1, 32);
    optimizer.step(0.1);
    if (context.rank != 0) return;
    for (fsdp::Unit& unit : rank.sharded.units()) {
      std::int64_t parameters = 0, gradients = 0;
      for (const auto& row : unit.rows()) {
        parameters += row.parameter_shard().numel() * 4,
            gradients += row.gradient_storage().numel() * 4;
      }
      table.put(short_name(unit.name()), 0, fmt::format("{}", parameters));
      table.put(short_name(unit.name()), 1, fmt::format("{}", gradients));
    }
  });
  return table.text("bytes of rank 0 of unit", {"parameters", "gradients"}, table.order());
}

}  // namespace

std::vector<Mystery> memory_mysteries() {
  return {
      {"A user has a model that just fits on one GPU. They put it under full_shard, on 2 ranks and "
       "then on 4, and expect a half and a quarter of the memory.",
       does_not_fall,
       {{"The optimizer's moments are kept whole on every rank.",
         "See how the line of the optimizer goes from 1 to 4 ranks."},
        {"No module was named as a unit, so one unit holds everything, and a gather makes the "
         "whole "
         "model.",
         "One unit has all parameters. What is it called? And is any rank different?"},
        {"Gradients are added up whole over the micro-batches.",
         "Then only unsharded gradients would stay. Unsharded parameters stay, too."},
        {"Every rank trains a copy; nothing is sharded.",
         "The lines of the shards fall to a quarter. Look for the lines that do not."}},
       2,
       "all",
       "root",
       "Without a wrap policy the root unit is the whole model. Shards fall with W, but every "
       "gather "
       "borrows 4 bytes a parameter, and backward 4 more, on every rank. On 2 ranks 8 + 8 bytes "
       "are "
       "the 16 of one rank. Name the blocks as units. Somebody met this in DeepSpeed's issue 4093 "
       "and "
       "in pytorch/pytorch 82001."},
      {"A user watches a training on 2 ranks. The monitor of the machine shows several times what "
       "the "
       "program says that it uses, and the user suspects a leak.",
       more_than_used,
       {{"Memory leaks: each step allocates, and nothing is freed.",
         "A leak grows. Compare the columns."},
        {"Every unit has slots of its own, which stay reserved while other units compute.",
         "Which units have that? Ask how many blocks there are, and how many compute at a time."},
        {"Activations of forward are kept until backward.",
         "Activations are another class of memory; these lines do not count them."},
        {"The other rank's memory is counted, too.",
         "Then reserved would be twice what is in use at most; and every ledger is one rank's."}},
       2,
       "all",
       "all",
       "Reserved memory is what the process has from the system; in use is what holds something "
       "now. "
       "With pool = false each unit keeps its slots for good, on every rank. With the pool, two "
       "slots "
       "serve all blocks. Megatron-LM's issue 6885 is about such differences: allocated, reserved "
       "and "
       "what nvidia-smi shows."},
      {"A user wants more overlap. They have raised forward_prefetch and told the library which "
       "units "
       "to gather ahead. Now the model, which fitted before, does not fit.",
       far_ahead,
       {{"Units are not discarded after their forward.",
         "Every U of forward has its R before backward begins. How many are open at a time?"},
        {"Where forward comes to one unit, many units are gathered ahead, and each holds a slot "
         "until "
         "its own turn.",
         "Find the place where several U follow each other. Which unit's forward is next?"},
        {"Backward gathers units that forward has just gathered.",
         "It does, in every full_shard. But memory is highest where most units are gathered and "
         "not "
         "yet discarded."},
        {"Gradients are not reduced before the end.", "Each RS follows the backward of its unit."}},
       2,
       "all",
       "h.1",
       "The list of units to gather ahead at h.1 has four. Each takes a slot and holds it until "
       "its "
       "own forward is over. One or two ahead hide as much. Memory that is held across streams for "
       "too long was met in pytorch/pytorch 147168 and torchtitan 735."},
      {"A user has read that reshard_after_forward may be a number, and set 2 on 4 ranks so that "
       "backward gathers inside a node. A deep model now runs out of memory; a shallow one does "
       "not.",
       kept_slices,
       {{"The number of slots grows with the number of blocks.",
         "Slots are whole blocks. From 4 blocks to 8 the line grows by half a block for each "
         "block."},
        {"From forward to backward each rank keeps a part of every block, of which a group of 2 "
         "has "
         "all.",
         "Each block adds the same. Is the root discarded between forward and backward at all?"},
        {"The optimizer keeps moments for the whole model.",
         "The optimizer's line grows with the model, but it is a W-th of the moments."},
        {"Gradients are added up whole.", "Unsharded gradients do not grow with the blocks."}},
       2,
       "all",
       "all",
       "After forward a block is not cut into 4 parts but into 2, and each rank keeps its half "
       "until "
       "backward: half of the model, on every rank, in every block. That is the price of gathers "
       "that stay inside a node. Met in pytorch/pytorch 147179. Two engines kept a buffer for each "
       "layer in backward, which also grows with the depth: pytorch/pytorch 179443 and "
       "ISEEKYAN/Megatron-LM 158."},
      {"A user accumulates gradients over micro-batches, and switched synchronisation off until "
       "the "
       "last one, to send less. Before and after:",
       whole_gradients,
       {{"More micro-batches are in memory at a time.",
         "Rows and activations do not appear here. Which line has changed?"},
        {"Whole gradients of every unit are kept until the last micro-batch.",
         "The line that has grown counts every unit, on every rank."},
        {"Units are not discarded after forward.", "Unsharded parameters are as before."},
        {"The reduction needs a buffer of its own for each unit.",
         "A reduction has landed when the next begins. What is it that cannot be reduced yet?"}},
       2,
       "all",
       "all",
       "With no_sync nothing is reduced before the last micro-batch, so all units' whole gradients "
       "add up in memory: 4 bytes for every parameter of the model. It saves reduce-scatters and "
       "costs that. Met in accelerate's issue 2531; build-nanogpt 30 shows that switching it off "
       "for "
       "backward alone is not enough."},
      {"A user fine-tunes: only ln_f is to train, and the optimizer is told so. Gradients take "
       "more "
       "memory than a layer norm has.",
       not_frozen,
       {{"The optimizer's moments are allocated for frozen parameters.",
         "There are no moments in this table: the user descends without them."},
        {"A unit's parameters still require gradients, although the optimizer leaves them alone.",
         "Which unit has gradients and should not?"},
        {"The root's gradients are those of the whole model.",
         "The root's gradients are as small as ln_f is."},
        {"Frozen parameters are gathered, and gathering needs gradients.",
         "Frozen units are gathered as well; most of them have no gradients here."}},
       2,
       "all",
       "h.2",
       "requires_grad was set to false for all blocks but h.2. Backward computes, reduces and "
       "stores "
       "its gradients on every rank; that the optimizer does not use them saves nothing. What "
       "frozen "
       "parameters cost was met in pytorch/pytorch 91165."},
  };
}

}  // namespace lesson::mystery
