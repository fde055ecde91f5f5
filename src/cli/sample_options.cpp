#include "cli/option_kinds.h"

namespace nanofsdp::cli {
namespace {

constexpr char kSampleUsage[] =
    R"(nanofsdp sample [CONFIG] [--name=value ...]

Lets a trained GPT write. Options have the names and meanings of nanoGPT's sample.py.
)";

}  // namespace

SampleOptions parse_sample_options(const std::vector<std::string>& args) {
  SampleOptions o;
  CommandLine line(kSampleUsage);
  line.group("Options");
  line.add("out_dir", "where `nanofsdp train --out_dir` saved", o.out_dir);
  line.add("start", "what the text begins with, or FILE:prompt.txt", o.start);
  line.add("num_samples", "how many texts", o.num_samples, kSize);
  line.add("max_new_tokens", "length of each", o.max_new_tokens, kSize);
  line.add("temperature", "below 1: likelier tokens, above 1: wilder ones", o.temperature,
           kTemperature);
  line.add("top_k", "choose among so many likeliest tokens", o.top_k, kCount);
  line.add("seed", "of the choices", o.seed, kNoneOrMore);
  add_init_from(line, {"resume"}, "resume: the model in out_dir", o.init_from, o.pretrained);
  line.add("vocab", "GPT-2's vocab.json, to read the tokens of a model that lacks it (ours)",
           o.vocab);
  add_device(line, o.device);
  add_ignored(line, o.notes);
  line.group("Ranks (ours)");
  add_ranks(line, o);
  line.parse(args);

  settle_backend(line, o.device, o.backend);
  require(!o.out_dir.empty(), "out_dir", "a directory", "nothing");
  require(!o.start.empty(), "start", "at least one character", "nothing");
  if (o.init_from == "resume") {
    require_no_pretrained(o.pretrained);
  } else if (o.pretrained.empty()) {
    o.pretrained = "data/" + o.init_from;
  }
  o.settings = line.settings({"out_dir", "pretrained", "vocab", "start"});
  return o;
}

}  // namespace nanofsdp::cli
