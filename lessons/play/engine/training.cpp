#include "engine/training.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/fingerprint.h"
#include "base/transfer.h"
#include "fsdp/deferred_init.h"
#include "nn/key_value_cache.h"
#include "nn/loss.h"
#include "train/sampler.h"
#include "train/schedule.h"

namespace nanofsdp::play {

Training::Training(Context& context, comm::Mesh mesh, const Settings& settings,
                   const data::Dataset& dataset)
    : context_(context),
      settings_(settings),
      dataset_(dataset),
      mesh_(std::move(mesh)),
      generator_(static_cast<std::uint64_t>(settings.options.seed)),
      model_(train::config_of(settings.options, dataset.tokenizer().vocab_size())),
      sharded_(context, model_, mesh_, fsdp_options(settings)),
      tape_(context),
      norm_(context, mesh_),
      optimizer_(context, sharded_.units(),
                 {.beta1 = settings.options.beta1,
                  .beta2 = settings.options.beta2,
                  .weight_decay = settings.options.weight_decay}),
      shape_{settings.options.batch_size, settings.options.gradient_accumulation_steps,
             context.world_size},
      plan_(data::plan_step(shape_, context.rank)),
      drawn_(static_cast<std::size_t>(2 * shape_.batch_size * settings.options.block_size)),
      batch_(context.buffer(MemoryClass::activations, std::ssize(drawn_), DType::int32)),
      losses_(context, mesh_, 1) {
  train::set_recompute(model_, settings.options.recompute);
  initialise();
}

void Training::initialise() {
  if (is_simulated(context_.device)) {  // a simulated device has no memory for the values
    for (fsdp::ShardedParameters* row : sharded_.rows()) row->written();
    return;
  }
  fsdp::deferred_init(context_, sharded_.units(), model_.nanogpt_draws(), generator_);
}

Tensor Training::batch(int half, std::int64_t rows) const {
  const std::int64_t T = settings_.options.block_size, whole = shape_.batch_size * T;
  return batch_.tensor({2 * whole}, DType::int32).slice(half * whole, rows * T).view({rows, T});
}

void Training::step() {
  losses_.clear();
  sharded_.zero_grad();
  auto mine = plan_.begin();
  for (std::int64_t m = 0; m < shape_.gradient_accumulation_steps; ++m) {
    // Every rank draws every micro-batch, so all generators stay equal.
    const bool is_mine = mine != plan_.end() && mine->index == m;
    const data::BatchRows rows = is_mine ? mine->rows : data::BatchRows{};
    const auto n = static_cast<std::size_t>(rows.count * settings_.options.block_size);
    const std::span drawn(drawn_);
    dataset_.draw(data::Split::train, generator_, shape_.batch_size, rows,
                  {drawn.first(n), drawn.subspan(drawn.size() / 2, n)});
    if (!is_mine) continue;
    micro_step(*mine, mine + 1 == plan_.end());
    ++mine;
  }
  const std::size_t span = context_.tracer.begin(*context_.compute, Lane::compute, "optimizer");
  norm_.compute(sharded_.units(), settings_.options.grad_clip);
  optimizer_.step(train::learning_rate_at(settings_.options, steps_++), norm_.coefficient());
  context_.tracer.end(*context_.compute, span);
  const auto tokens = static_cast<double>(shape_.rows() * settings_.options.block_size);
  loss_ = losses_.over_ranks()[0] / tokens;
  grad_norm_ = item<float>(*context_.compute, norm_.norm());
}

void Training::micro_step(const data::MicroStep& micro_step, bool last) {
  const auto& [index, rows] = micro_step;
  const auto half = static_cast<std::int64_t>(drawn_.size() / 2);
  for (const int i : {0, 1}) {
    const Tensor on_host(drawn_.data() + i * half, {rows.count, settings_.options.block_size},
                         DType::int32);
    transfer(*context_.compute, on_host, batch(i, rows.count));
  }
  tape_.begin(/*training=*/true);
  bottom_ = tape_.allocate({0}).address();
  const Tensor logits = sharded_.forward(tape_, batch(0, rows.count));
  nn::cross_entropy(tape_, logits, batch(1, rows.count), losses_.sum(0));
  const auto tokens = static_cast<float>(shape_.rows() * settings_.options.block_size);
  sharded_.backward(tape_, nn::cross_entropy_backward(tape_, 1 / tokens), last);
  bottom_ = 0;
}

std::uint64_t Training::fingerprint_of_weights() {
  std::uint64_t hash = fingerprint(std::string_view());
  sharded_.summon_full_parameters([&](const nn::Parameter& parameter) {
    hash = fingerprint(std::as_bytes(parameter.data.span<float>()), hash);
  });
  return hash;
}

std::string Training::sample(std::int64_t length) {
  nn::KeyValueCache cache(context_, settings_.options.block_size);
  Generator generator(static_cast<std::uint64_t>(settings_.options.seed));
  const data::Tokenizer& tokenizer = dataset_.tokenizer();
  const std::vector<std::int32_t> tokens = train::generate(
      sharded_, tape_, cache, {tokenizer.opening()}, {.max_new_tokens = length}, generator);
  return tokenizer.decode(std::span(tokens).subspan(1));
}

std::int64_t Training::activations() {
  const auto batch = static_cast<std::int64_t>(batch_.bytes());
  if (bottom_ == 0) return batch;
  return batch + static_cast<std::int64_t>(tape_.allocate({0}).address() - bottom_);
}

}  // namespace nanofsdp::play
