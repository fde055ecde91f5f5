#include "bench/planned.h"

#include "comm/gloo.h"
#include "data/batch_plan.h"
#include "gpt/gpt.h"

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
                  .saves = o.saves()};
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
  if (ranks.backend == comm::Backend::gloo) {
    run.scratch = [sharers](int W, int first, int last, std::int64_t chunk_bytes) {
      // Ranks that share memory read where their peers write, and need no scratch.
      return first / sharers == last / sharers ? 0 : comm::gloo_scratch_bytes(W, chunk_bytes);
    };
  } else if (ranks.backend == comm::Backend::nccl && ranks.reduction == comm::Reduction::ordered) {
    run.scratch = [](int W, int, int, std::int64_t n) { return comm::nccl_scratch_bytes(W, n); };
  }
  return run;
}

}  // namespace nanofsdp::bench
