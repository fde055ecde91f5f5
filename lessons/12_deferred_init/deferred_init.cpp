#include "fsdp/deferred_init.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/local.h"
#include "frame/lesson.h"
#include "picture.h"
#include "scene.h"

// Lesson 12: a model gets its first values although no rank ever holds all of it. The order of the
// draws decides which values it gets.

namespace {

using namespace nanofsdp;
using lesson::Draw;
using Units = std::vector<fsdp::WrappedModule>;

//! [plan]
enum class Walk { breadth_first, depth_first };

std::vector<Draw> plan_of(const Units& units, Walk walk) {  // the blocks, then the root
  std::vector<Draw> plan;
  for (const fsdp::WrappedModule& unit : units) {
    std::deque<nn::Module::Child> queue = {{unit.name, unit.module}};
    while (!queue.empty()) {
      const auto [path, module] = queue.front();
      queue.pop_front();
      for (const auto& [name, p] : module->own_parameters()) plan.push_back({path, p.get()});
      std::vector<nn::Module::Child> below;
      for (const auto& [name, child] : module->children()) {
        if (!lesson::is_block(*child)) below.emplace_back(path + "." + name, child);
      }
      const bool breadth = walk == Walk::breadth_first;
      queue.insert(breadth ? queue.end() : queue.begin(), below.begin(), below.end());
    }
  }
  return plan;
}
//! [plan]

void deferred(Ledger& ledger, const lesson::Homes& homes, const std::vector<Draw>& plan) {
  //! [deferred]
  const Buffer scratch(ledger, MemoryClass::unsharded_parameters, 4 * homes.largest);
  Generator generator(lesson::kSeed);  // the same on every rank
  for (const Draw& draw : plan) {
    const std::span<float> whole = scratch.tensor({draw.numel()}).span<float>();
    nn::draw(generator, draw.parameter->init, whole);
    const auto& [shard, piece] = homes.of.at(draw.parameter);
    std::ranges::copy(whole.subspan(piece.in_parameter.begin, piece.in_parameter.size()),
                      shard.f32() + piece.in_shard.begin);
  }
  //! [deferred]
}

// Initialises on W ranks, by hand and by the library, and compares.
// @return bytes on rank 0: shards, scratch, peak of both
std::vector<std::int64_t> compare(lesson::Lesson& lesson, int W) {
  std::vector<std::int64_t> bytes;
  comm::launch_threads(W, 1, [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    gpt::GPT model(lesson::nanogpt(52));
    const Units units = fsdp::wrap(model, lesson::is_block);
    const std::vector<Draw> plan = plan_of(units, Walk::breadth_first);
    const lesson::Homes homes(context, units);
    deferred(context.ledger, homes, plan);
    if (context.rank == 0) {
      bytes = {context.ledger.count(MemoryClass::parameter_shards).reserved,
               context.ledger.count(MemoryClass::unsharded_parameters).reserved_peak,
               context.ledger.total_peak()};
    }
    comm::Mesh mesh(std::move(world));
    fsdp::ShardedModel sharded(context, model, mesh,
                               {.alignment = 1, .wrap_policy = lesson::is_block});
    Generator generator(lesson::kSeed);
    fsdp::deferred_init(context, sharded.units(), fsdp::breadth_first_draws(sharded.units()),
                        generator);
    bool equal = true;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::span<float> theirs = sharded.units()[u].rows()[0].parameter_shard().span<float>();
      equal &=
          std::ranges::equal(homes.shards[u].tensor({std::ssize(theirs)}).span<float>(), theirs);
    }
    const lesson::Values whole = lesson::whole_model(plan, lesson::kSeed);
    sharded.summon_full_parameters([&](const nn::Parameter& p) {
      equal &= std::ranges::equal(p.data.span<float>(), whole.at(&p));
    });
    lesson.claim(equal, fmt::format("W = {}: shards, and what they are gathered to", W));
  });
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  lesson::Lesson lesson(argc, argv);
  gpt::GPT model(lesson::nanogpt(52));
  const Units units = fsdp::wrap(model, lesson::is_block);
  const std::vector<Draw> breadth = plan_of(units, Walk::breadth_first);
  const std::vector<Draw> depth = plan_of(units, Walk::depth_first);
  std::int64_t declared = 0, allocated = 0, drawn = 0, in_blocks = 0, in_root = 0;
  for (const nn::Parameter* p : model.named_parameters()) {
    declared += p->shape.numel(), allocated += static_cast<std::int64_t>(p->data.bytes());
  }
  for (const Draw& draw : breadth) drawn += draw.is_random() ? draw.numel() : 0;
  lesson.print(fmt::format("declared: 27 parameters, {} elements, {} bytes", declared, allocated));
  lesson.print(fmt::format("each rank draws {} random numbers, whatever W", drawn));
  lesson.print("bytes of a rank        shards   scratch      peak");
  for (const int W : {1, 2, 4}) {
    const std::vector<std::int64_t> bytes = compare(lesson, W);
    lesson.print(fmt::format("W = {}{:>24}{:>10}{:>10}", W, bytes[0], bytes[1], bytes[2]));
    if (W == 2) lesson.answer(bytes[2]);
  }
  lesson.answer(drawn);

  const auto level_by_level = lesson::root_draws(breadth),
             branch_by_branch = lesson::root_draws(depth);
  lesson.print("breadth-first, root unit:" + lesson::in_words(level_by_level));
  lesson.print("depth-first, root unit:  " + lesson::in_words(branch_by_branch));
  lesson.picture(lesson::picture_of_walks(level_by_level, branch_by_branch));
  const lesson::Values a = lesson::whole_model(breadth, lesson::kSeed),
                       b = lesson::whole_model(depth, lesson::kSeed);
  for (const fsdp::WrappedModule& unit : units) {
    (unit.name == "root" ? in_root : in_blocks) += lesson::count_different(unit.parameters, a, b);
  }
  lesson.print(fmt::format("elements that differ between the two: {} in the blocks, {} in the root",
                           in_blocks, in_root));
  lesson.answer(in_blocks + in_root);
  for (const bool sync : {false, true}) {
    lesson.print(fmt::format("2 ranks, 2 seeds, sync_module_states = {}: {} elements are rank 0's",
                             sync, lesson::rank_0s_share(2, sync)));
  }
  return lesson.end("shards drawn by hand equal the library's and the whole model's, W = 1, 2, 4");
}
