#include "bench/planned.h"

#include "comm/gloo.h"
#include "data/batch_plan.h"
#include "gpt/gpt.h"
#include "store/checkpoint.h"
#include "store/weights.h"

namespace nanofsdp::bench {

std::unique_ptr<nn::Module> planned_gpt(const gpt::GPTConfig& config, gpt::Recompute recompute) {
  auto model = std::make_unique<gpt::GPT>(config);
  train::set_recompute(*model, recompute);
  return model;
}

plan::Run planned_run(const train::TrainerOptions& o, const comm::RanksOptions& ranks, int rank,
                      int threads, Device device, int sharers) {
  plan::Work work{.tokens = o.block_size,
                  .batch_rows = o.batch_size,
                  .sums = 2,
                  .draws = o.pretrained.empty(),
                  .unsharded_units = o.unsharded_blocks};
  for (const data::MicroStep& step :
       data::plan_step({o.batch_size, o.gradient_accumulation_steps, ranks.ranks}, rank)) {
    work.rows.push_back(step.rows.count);
  }
  plan::Run run{.ranks = ranks.ranks,
                .shard_size = o.shard_size,
                .post_forward_size = o.reshard_after_forward,
                .rank = rank,
                .threads = threads,
                .device = device,
                .options = train::fsdp_options(o, device),
                .work = std::move(work)};
  if (o.resumes())
    run.load = [](plan::Rehearsal& of) { store::load_checkpoint("", of.model(), of.optimizer()); };
  if (o.saves())
    run.save = [](plan::Rehearsal& of) {
      store::save_checkpoint("", of.model(), of.optimizer(), {});
      of.tape().release();
      store::save_weights("", of.model(), {});
    };
  const bool gloo = ranks.backend == comm::Backend::gloo;
  const bool owners =
      ranks.backend == comm::Backend::nccl && ranks.reduction == comm::Reduction::ordered;
  run.scratch = [=](int W, int first, int last, std::int64_t n) -> std::uint64_t {
    if (owners) return comm::nccl_scratch_bytes(W, n);
    // Ranks that share memory read where their peers write, and need no scratch.
    return gloo && first / sharers != last / sharers ? comm::gloo_scratch_bytes(W, n) : 0;
  };
  return run;
}

}  // namespace nanofsdp::bench
