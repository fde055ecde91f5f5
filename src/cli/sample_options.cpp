#include "cli/option_kinds.h"

namespace nanofsdp::cli {
namespace {

constexpr char kSampleUsage[] =
    R"(nanofsdp sample [CONFIG] [--name=value ...]

Lets a trained GPT write. Options have the names and meanings of nanoGPT's sample.py.
)";

constexpr char kExportUsage[] =
    R"(nanofsdp export [--name=value ...]

Saves the weights of a trained GPT in one file a rank. PyTorch's distributed checkpoint loads them
(HuggingFaceStorageReader) at any number of ranks, and so do `nanofsdp sample --out_dir=DIR` and
every --pretrained=DIR.
)";

void add_saved_model(CommandLine& line, SavedModel& o) {
  line.add("out_dir", "where `nanofsdp train --out_dir` saved", o.out_dir);
  add_init_from(line, {"resume"}, "resume: the model in out_dir", o.init_from, o.pretrained);
}

void settle_saved_model(SavedModel& o) {
  require(!o.out_dir.empty(), "out_dir", "a directory", "nothing");
  if (o.init_from == "resume") return require_no_pretrained(o.pretrained);
  if (o.pretrained.empty()) o.pretrained = "data/" + o.init_from;
}

// Adds the last options, which are those of the ranks. Then reads and settles all.
template <class Options>
void parse(CommandLine& line, Options& o, const std::vector<std::string>& args) {
  line.group("Ranks (ours)");
  add_ranks(line, o);
  line.parse(args);
  settle_backend(line, o);
  settle_saved_model(o);
}

}  // namespace

SampleOptions parse_sample_options(const std::vector<std::string>& args) {
  SampleOptions o;
  CommandLine line(kSampleUsage);
  line.group("Options");
  add_saved_model(line, o);
  line.add("start", "what the text begins with, or FILE:prompt.txt", o.start);
  line.add("num_samples", "how many texts", o.num_samples, kSize);
  line.add("max_new_tokens", "length of each", o.max_new_tokens, kSize);
  line.add("temperature", "below 1: likelier tokens, above 1: wilder ones", o.temperature,
           kTemperature);
  line.add("top_k", "choose among so many likeliest tokens", o.top_k, kCount);
  line.add("seed", "of the choices", o.seed, kNoneOrMore);
  line.add("vocab", "GPT-2's vocab.json, to read the tokens of a model that lacks it (ours)",
           o.vocab);
  add_device(line, o.device);
  add_ignored(line, o.notes);
  parse(line, o, args);
  require(o.pretrained.empty() || !line.given("out_dir"), "out_dir", "nothing beside --init_from",
          o.out_dir);
  require(!o.start.empty(), "start", "at least one character", "nothing");
  o.settings = line.settings({"out_dir", "pretrained", "vocab", "start"});
  return o;
}

ExportOptions parse_export_options(const std::vector<std::string>& args) {
  ExportOptions o;
  CommandLine line(kExportUsage);
  line.group("Options");
  add_saved_model(line, o);
  line.add("to", "a directory for the files; default: shards in out_dir (ours)", o.to);
  choose(line, "dtype", "of the weights in the files: float32 or bfloat16", o.dtype,
         {{"float32", DType::float32}, {"bfloat16", DType::bfloat16}});
  add_device(line, o.device);
  parse(line, o, args);
  if (o.to.empty()) o.to = o.out_dir + "/shards";
  o.settings = line.settings({"out_dir", "pretrained", "to"});
  return o;
}

}  // namespace nanofsdp::cli
