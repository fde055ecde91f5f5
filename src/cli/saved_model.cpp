#include "cli/saved_model.h"

#include "data/bpe_tokenizer.h"
#include "store/weights.h"
#include "train/pretrained.h"

namespace nanofsdp::cli {

train::WeightsInfo read_info(const SavedModel& saved) {
  if (saved.pretrained.empty()) return train::read_weights_info(saved.out_dir);
  return {.config = train::read_pretrained_config(saved.pretrained),
          .pieces = data::read_vocab_in(saved.pretrained)};
}

void load(const SavedModel& saved, fsdp::ShardedModel& model) {
  if (saved.pretrained.empty()) {
    store::load_weights(saved.out_dir, model);
  } else {
    train::load_pretrained(saved.pretrained, model);
  }
}

}  // namespace nanofsdp::cli
