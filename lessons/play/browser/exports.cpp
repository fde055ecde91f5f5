#include <cstdint>
#include <string>

#include <emscripten/emscripten.h>

#include "base/check.h"
#include "base/file.h"
#include "cli/config_file.h"
#include "engine/binding.h"
#include "store/checkpoint.h"
#include "store/weights.h"
#include "train/pretrained.h"

/// @file
/// @brief The functions that JavaScript calls. Another call fetches the answer. The reason: a call
/// in which fibers take turns returns to JavaScript several times, and only the first return
/// counts.

namespace {
std::string the_answer, the_mutant;
}  // namespace

extern "C" {

/// @param broken the bug to switch on; empty: none
EMSCRIPTEN_KEEPALIVE void play_ask(const char* request, const char* broken) {
  static nanofsdp::play::Binding binding;
  the_mutant = broken;
  chosen_mutant = the_mutant;
  the_answer = binding.answer(request);
}

EMSCRIPTEN_KEEPALIVE const char* play_answer() { return the_answer.c_str(); }

}  // extern "C"

// A page has no files. So nobody asks for these ...
void nanofsdp::store::load_weights(const std::string&, fsdp::ShardedModel&) {}
void nanofsdp::store::save_weights(const std::string&, fsdp::ShardedModel&, Metadata) {}
nanofsdp::store::Metadata nanofsdp::store::load_checkpoint(const std::string&, fsdp::ShardedModel&,
                                                           fsdp::ShardedOptimizer&) {
  return {};
}
std::optional<std::filesystem::path> nanofsdp::store::save_checkpoint(const std::string&,
                                                                      fsdp::ShardedModel&,
                                                                      fsdp::ShardedOptimizer&,
                                                                      const Metadata&) {
  return {};
}

// ... and these refuse.
std::string nanofsdp::read_file(const std::string&, Fault fault, std::uint64_t) {
  throw UsageError(fault);
}
void nanofsdp::train::load_model(const std::string& directory, fsdp::ShardedModel&) {
  throw UsageError({.what = "weights in " + directory, .expected = "none: a page has no files"});
}
nanofsdp::cli::Config nanofsdp::cli::read_config(const std::string& name) {
  throw UsageError({.what = "config file " + name, .expected = "options: a page has no files"});
}
