#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "comm/agreement.h"
#include "store/checkpoint.h"
#include "store/owned_directory.h"
#include "store/weights.h"
#include "train/model_file.h"
#include "train/trainer.h"

// The whole run of a trainer, with its files. The page in which a model trains in a browser has no
// files, so it is built without these functions.

namespace nanofsdp::train {

// Before the first step, this compares what ranks may have got differently if they were started one
// by one.
void Trainer::require_agreement() {
  std::string model;
  for (const store::TensorInfo& p : store::infos_of(sharded_))
    model += fmt::format("{} {}\n", p.name, fmt::join(p.shape, "x"));
  const auto require = [&](const char* what, std::uint64_t fingerprint, const char* hint) {
    comm::require_agreement(mesh_.world(), *context_.compute, what, fingerprint, hint);
  };
  require("options", nanofsdp::fingerprint(fmt::format("{}", options_.settings)),
          "start all with the same command");
  require("model", nanofsdp::fingerprint(model), "start all from the same program");
  require("data", dataset_.fingerprint(), "give all the same text");
}

// Switches the tracer on before each of a few steps, after the first steps are over.
void Trainer::trace(std::int64_t iteration) {
  const std::int64_t first =
      first_ + std::clamp<std::int64_t>(options_.max_iters - first_ - kTracedSteps, 0, 10);
  if (iteration >= first && iteration < first + kTracedSteps) context_.tracer.start();
}

void Trainer::resume() {
  const store::Manifest manifest = store::read_manifest(options_.out_dir);
  RunState state = run_state_of(manifest.metadata, options_.out_dir);
  const std::string what = "checkpoint '" + store::checkpoint_path(options_.out_dir).string() + "'";
  const data::Tokenizer& tokenizer = dataset_.tokenizer();
  if (state.alphabet != tokenizer.chars() || state.vocab_size != tokenizer.vocab_size()) {
    const char* tokens = tokenizer.chars().empty() ? "tokens of data" : "characters of text";
    NANOFSDP_REFUSE(.what = what,
                    .expected = fmt::format("a model of the {} '{}'", tokens, dataset_.name()),
                    .got = "one of others", .hint = "resume with the text that it was trained on");
  }
  NANOFSDP_REFUSE_IF(state.iteration > options_.max_iters && !options_.eval_only, .what = what,
                     .expected = fmt::format("at most --max_iters={}", options_.max_iters),
                     .got = fmt::format("iteration {}", state.iteration),
                     .hint = "give a larger --max_iters to train on");
  // Another run may have saved meanwhile. This is the state that belongs to the loaded values.
  state = run_state_of(store::load_checkpoint(options_.out_dir, sharded_, optimizer_),
                       options_.out_dir);
  generator_.set_state(state.generator);
  best_val_loss_ = state.best_val_loss;
  first_ = saved_ = state.iteration;
}

void Trainer::save(std::int64_t iteration, double val_loss, Listener& listener) {
  require_finite_state(iteration);
  const data::Tokenizer& tokenizer = dataset_.tokenizer();
  const auto aside =
      store::save_checkpoint(options_.out_dir, sharded_, optimizer_,
                             metadata_of(RunState{.iteration = iteration,
                                                  .best_val_loss = best_val_loss_,
                                                  .generator = generator_.state(),
                                                  .alphabet = tokenizer.chars(),
                                                  .vocab_size = tokenizer.vocab_size(),
                                                  .pieces = tokenizer.pieces(),
                                                  .options = options_.settings}));
  if (aside) saved_ = iteration;
  tape_.release();  // frees memory that save_weights needs
  const std::string path = store::checkpoint_path(options_.out_dir).string();
  listener.saved(aside ? path : "no " + path + ", for the ranks do not all see this directory");
  if (aside && !aside->empty()) listener.saved("files of others in " + aside->string());
  store::save_weights(options_.out_dir, sharded_,
                      metadata_of(WeightsInfo{.config = model_.config(),
                                              .chars = tokenizer.chars(),
                                              .iteration = iteration,
                                              .val_loss = val_loss,
                                              .pieces = tokenizer.pieces()}));
  listener.saved(store::weights_path(options_.out_dir).string());
}

void Trainer::run(Listener& listener) try {
  require_agreement();
  if (options_.saves() && context_.rank == 0) owned_ = store::own_directory(options_.out_dir);
  if (options_.resumes()) resume();
  listener.started();
  if (options_.resumes())
    listener.resumed(store::checkpoint_path(options_.out_dir).string(), first_);
  if (options_.eval_only) return listener.evaluation(first_, evaluate());
  for (std::int64_t iteration = first_; iteration <= options_.max_iters; ++iteration) {
    const bool first = iteration == first_, last = iteration == options_.max_iters;
    if (iteration % options_.eval_interval == 0 || first || last) {
      const EvalResult result = evaluate();
      require_finite(iteration, result);
      listener.evaluation(iteration, result);
      const bool best = result.val_loss < best_val_loss_;
      if (best) best_val_loss_ = result.val_loss;
      const bool wanted = best || options_.always_save_checkpoint;
      if (wanted && !first && options_.saves()) save(iteration, result.val_loss, listener);
      listener.settled();
    }
    if (last) break;
    trace(iteration);
    const StepResult result = step(iteration);
    context_.tracer.stop();
    require_finite(iteration, result);
    listener.step(iteration, result);
  }
} catch (const RunError&) {  // on all ranks: numbers that are not finite
  listener.settled();
  mesh_.world().barrier(*context_.compute).synchronize();  // the first to end would end the others
  throw;
}

}  // namespace nanofsdp::train
