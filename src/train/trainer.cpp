#include "train/trainer.h"

#include <algorithm>

#include "base/transfer.h"
#include "fsdp/deferred_init.h"
#include "nn/loss.h"
#include "train/pretrained.h"
#include "train/sampler.h"

namespace nanofsdp::train {

Trainer::Trainer(Context& context, comm::Mesh mesh, const TrainerOptions& options,
                 const data::Dataset& dataset)
    : context_(context),
      options_(options),
      dataset_(dataset),
      mesh_(std::move(mesh)),
      generator_(static_cast<std::uint64_t>(options.seed)),
      model_(config_of(options, dataset.tokenizer().vocab_size())),
      sharded_(context, model_, mesh_, fsdp_options(options, context.device)),
      tape_(context),
      optimizer_(
          context, sharded_.units(),
          {.beta1 = options.beta1, .beta2 = options.beta2, .weight_decay = options.weight_decay}),
      shape_{options.batch_size, options.gradient_accumulation_steps, context.world_size},
      plan_(data::plan_step(shape_, context.rank)),
      drawn_(static_cast<std::size_t>(2 * options.batch_size * options.block_size)),
      batch_(context.buffer(MemoryClass::activations, std::ssize(drawn_), DType::int32)),
      losses_(context.buffer(MemoryClass::communication, 2 * mesh_.size(), DType::float64)) {
  set_recompute(model_, options.recompute);
  for (int i = 1; i <= options.unsharded_blocks && i < std::ssize(sharded_.units()); ++i)
    sharded_.units().rbegin()[i].reshard_after_forward = false;
  if (!options.pretrained.empty())
    load_model(options.pretrained, sharded_);
  else
    fsdp::deferred_init(context_, sharded_.units(),
                        options.init_order == InitOrder::nanogpt
                            ? model_.nanogpt_draws()
                            : fsdp::breadth_first_draws(sharded_.units()),
                        generator_);
}

// Draws a batch, and returns the inputs and targets of this rank's rows where the model reads them.
// If the rows do not count, they have no targets.
std::array<Tensor, 2> Trainer::draw(data::Split split, Generator& generator, data::BatchRows rows,
                                    bool counts) {
  const std::int64_t T = options_.block_size, n = rows.count * T;
  const auto half = static_cast<std::size_t>(n);
  const data::Batch batch{std::span(drawn_).first(half), std::span(drawn_).subspan(half, half)};
  dataset_.draw(split, generator, options_.batch_size, rows, batch);
  if (!counts) std::ranges::fill(batch.y, -1);
  const Tensor both = batch_.tensor({2 * n}, DType::int32);
  transfer(*context_.compute, Tensor(drawn_.data(), both.shape(), DType::int32), both);
  return {both.slice(0, n).view({rows.count, T}), both.slice(n, n).view({rows.count, T})};
}

// The sums to which this rank adds its losses: that of a step, or one for each split.
Tensor Trainer::loss_sums() const {
  return losses_.tensor({2 * mesh_.size()}, DType::float64).slice(2 * mesh_.rank(), 2);
}

void Trainer::clear_losses() {
  std::array<double, 2> zeros{};
  transfer(*context_.compute, Tensor(zeros.data(), {2}, DType::float64), loss_sums());
}

// The sums over all ranks, added in rank order. Collective; blocks the host.
std::array<double, 2> Trainer::losses_over_ranks() {
  const Tensor all = losses_.tensor({2 * mesh_.size()}, DType::float64);
  Stream& stream = *context_.compute;
  if (mesh_.size() > 1)
    stream.wait(
        mesh_.world().all_gather(stream, loss_sums(), all, {.unit = "loss", .control = true}));
  std::vector<double> values(static_cast<std::size_t>(all.numel()));
  transfer(stream, all, Tensor(values.data(), all.shape(), DType::float64));
  std::array<double, 2> sums{};
  for (std::size_t i = 0; i < values.size(); ++i) sums[i % 2] += values[i];
  return sums;
}

StepResult Trainer::step(std::int64_t iteration) {
  const double begin = now_seconds();
  clear_losses();
  sharded_.zero_grad();
  for (std::int64_t m = 0; m < shape_.gradient_accumulation_steps; ++m) {
    // Every rank draws every micro-batch, so all generators stay equal.
    const auto mine = std::ranges::find(plan_, m, &data::MicroStep::index);
    const bool is_mine = mine != plan_.end();
    const auto batch =
        draw(data::Split::train, generator_, is_mine ? mine->rows : data::BatchRows{});
    if (is_mine) forward_backward(iteration, *mine, batch, mine + 1 == plan_.end());
  }
  const double lr = learning_rate_at(options_, iteration);
  const std::size_t span = context_.tracer.begin(*context_.compute, Lane::compute, "optimizer");
  optimizer_.step(lr, sharded_.clip(options_.grad_clip));
  context_.tracer.end(*context_.compute, span);

  const auto tokens = static_cast<double>(shape_.rows() * options_.block_size);
  return {.loss = losses_over_ranks()[0] / tokens,
          .grad_norm = item<float>(*context_.compute, sharded_.grad_norm()),
          .lr = lr,
          .seconds = now_seconds() - begin};
}

void Trainer::forward_backward(std::int64_t iteration, const data::MicroStep& micro_step,
                               const std::array<Tensor, 2>& batch, bool last) {
  const auto& [index, rows] = micro_step;
  const auto& [x, y] = batch;
  tape_.begin(/*training=*/true, {.seed = static_cast<std::uint64_t>(options_.seed),
                                  .iteration = iteration,
                                  .micro_step = index,
                                  .first_row = rows.first});
  //! [backward]
  const Tensor logits = sharded_.forward(tape_, x);
  const auto tokens = static_cast<float>(shape_.rows() * options_.block_size);
  const Tensor dlogits = nn::cross_entropy(tape_, logits, y, loss_sums().slice(0, 1), 1 / tokens);
  sharded_.backward(tape_, dlogits, last);
  //! [backward]
}

EvalResult Trainer::evaluate() {
  clear_losses();
  Generator generator(static_cast<std::uint64_t>(options_.seed) + 1);
  for (std::int64_t i = 0; i < 2 * options_.eval_iters; ++i) {
    const bool val = i >= options_.eval_iters;
    evaluate_batch(val ? data::Split::val : data::Split::train, generator,
                   loss_sums().slice(val, 1));
  }
  const auto sums = losses_over_ranks();
  const auto tokens = static_cast<double>(options_.eval_iters) *
                      static_cast<double>(options_.batch_size * options_.block_size);
  return {.train_loss = sums[0] / tokens, .val_loss = sums[1] / tokens};
}

void Trainer::evaluate_batch(data::Split split, Generator& generator, Tensor total) {
  auto rows = data::share_of(options_.batch_size, context_.world_size, context_.rank);
  // A rank without rows computes one row that does not count, because it must take part in
  // collectives.
  const bool counts = rows.count > 0;
  if (!counts) rows = {0, 1};
  const auto batch = draw(split, generator, rows, counts);
  tape_.begin(/*training=*/false);
  nn::cross_entropy(tape_, sharded_.forward(tape_, batch[0]), batch[1], total);
  tape_.end();
}

std::string Trainer::sample(std::int64_t length) {
  Generator generator(static_cast<std::uint64_t>(options_.seed));
  nn::KeyValueCache cache(context_, options_.block_size);
  tape_.release();
  // With block recompute, a row of training needs a third of the memory of a cache for one text.
  const bool roomy = options_.recompute != gpt::Recompute::block ||
                     shape_.rows() >= 3 * context_.world_size * data::micro_steps_per_rank(shape_);
  const std::vector<std::int32_t> tokens =
      generate(sharded_, tape_, cache, {dataset_.tokenizer().opening()},
               {.max_new_tokens = length, .cached = roomy}, generator);
  return dataset_.tokenizer().decode(std::span(tokens).subspan(1));
}

}  // namespace nanofsdp::train
