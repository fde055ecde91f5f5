#include <fmt/format.h>

#include "base/check.h"
#include "store/checkpoint.h"
#include "store/weights.h"
#include "train/model_file.h"
#include "train/trainer.h"

namespace nanofsdp::train {
void Trainer::resume() {
  const store::Manifest manifest = store::read_manifest(options_.out_dir);
  const RunState state = run_state_of(manifest.metadata, options_.out_dir);
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
  store::load_checkpoint(options_.out_dir, manifest, sharded_, optimizer_);
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
                                              .pieces = tokenizer.pieces()}),
                      context_.rank);
  listener.saved(store::weights_path(options_.out_dir).string());
}

}  // namespace nanofsdp::train
