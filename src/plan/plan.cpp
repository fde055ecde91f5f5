#include "plan/plan.h"

#include <cmath>

#include "plan/outline.h"
#include "plan/simulated.h"

namespace nanofsdp::plan {

Plan plan(nn::Module& model, const Run& run, const Machine* machine) {
  const int T = run.tensor_size, ranks = run.ranks * T;
  SimulatedRank context(run.rank * T, ranks, run.threads, run.device);
  context.keeps = machine != nullptr;
  comm::Mesh mesh =
      make_simulated_mesh(context, run.shard_size, run.post_forward_size, run.scratch, T);
  if (auto* outline = dynamic_cast<Outline*>(&model)) outline->set_tensor(mesh.tensor());
  //! [plan]
  Rehearsal rehearsal(context, mesh, model, run.options, run.work);
  if (run.load) run.load(rehearsal);
  rehearsal.step();  // sizes the tape
  mesh.reset_traffic();
  context.products = 0;
  const std::size_t first = context.issued.size();
  if (machine != nullptr) context.tracer.start();
  rehearsal.step();
  Plan plan{.reserved = context.ledger.total(),
            .step = mesh.traffic(),
            .bytes_across = mesh.traffic_across().bytes_sent,
            .products = context.products};
  //! [plan]
  const std::int64_t rows = std::reduce(run.work.rows.begin(), run.work.rows.end());
  plan.products /= static_cast<double>(rows * run.work.tokens);
  const auto bytes = std::llround((run.across > 0 ? 1 - run.across : 0) * 1.0 * plan.bytes_across);
  plan.bytes_across -= bytes, plan.step.bytes_sent -= bytes, plan.step.bytes_received -= bytes;
  if (machine != nullptr)
    plan.time = play(context.issued, *machine, {ranks, run.threads, run.across}, first);
  plan.spans = context.tracer.spans();
  if (run.save) run.save(rehearsal);
  plan.total_peak = context.ledger.total_peak();
  for (const fsdp::Unit& unit : rehearsal.model().units()) plan.units.push_back(unit.numel());
  for (const fsdp::ShardedParameters* row : rehearsal.model().rows())
    plan.shard += row->layout().shard_numel();
  for (const MemoryClass c : kMemoryClasses)
    plan.memory[static_cast<std::size_t>(c)] = context.ledger.count(c);
  return plan;
}

}  // namespace nanofsdp::plan
