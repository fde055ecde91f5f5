#include "cli/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/file.h"
#include "cli/option_kinds.h"
#include "cli/outputs.h"
#include "comm/agreement.h"
#include "comm/mesh.h"
#include "data/bpe_tokenizer.h"
#include "gpt/gpt.h"
#include "store/weights.h"
#include "train/pretrained.h"

namespace nanofsdp::cli {
namespace {

// ---- options

void add_saved_model(CommandLine& line, SavedModel& o) {
  line.add("out_dir", o.out_dir);
  add_init_from(line, {"resume"}, o.init_from, o.pretrained);
}

// Adds the last options, which are those of the ranks. Then reads and settles all.
template <class Options>
void parse(CommandLine& line, Options& o, const std::vector<std::string>& args) {
  add_ranks(line, o);
  line.parse(args);
  settle_backend(line, o);
  require(!o.out_dir.empty(), "out_dir", "a directory", "nothing");
  settle_pretrained(o.init_from, o.pretrained);
}

// ---- sample

constexpr std::uint64_t kMostOfPrompt = 1 << 24;  // largest size of a prompt in bytes

struct Writer {
  gpt::GPTConfig config;
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::vector<std::int32_t> prompt{};
};

// The text of --start, or of the file that it names.
std::string read_start(const std::string& start) {
  constexpr std::string_view kFile = "FILE:";
  if (!start.starts_with(kFile)) return start;
  return read_text(start.substr(kFile.size()),
                   {.what = "--start=" + start, .expected = "a text file"}, kMostOfPrompt);
}

Writer read_writer(const SampleOptions& o) {
  const std::string start = read_start(o.start);
  const auto pieces = o.vocab.empty() ? std::vector<std::string>() : data::read_vocab(o.vocab);
  train::WeightsInfo info = train::read_model_info(o.directory());
  require(pieces.empty() || info.chars.empty(), "vocab", "a model of BPE", "one of characters");
  if (!pieces.empty()) info.pieces = pieces;
  Writer writer{.config = info.config, .tokenizer = train::make_tokenizer(info)};
  const bool lacks = !info.chars.empty() && info.chars.find('\n') == std::string::npos;
  const bool opens = lacks && o.start == SampleOptions().start;  // a text may have no line ends
  writer.prompt =
      opens ? std::vector{writer.tokenizer->opening()} : writer.tokenizer->encode(start);
  require(!writer.prompt.empty(), "start", "at least one character", "an empty file");
  return writer;
}

void write_samples(Context& context, std::unique_ptr<comm::Communicator> world,
                   const SampleOptions& o, const Writer& writer) {
  comm::Mesh mesh(std::move(world));
  // If a launcher started ranks with other options or models, they would wait for each other, or
  // mix two models.
  comm::require_agreement(mesh.world(), *context.compute, "options",
                          fingerprint(fmt::format("{}", o.settings)),
                          "start all with the same command");
  const auto model_file = train::metadata_of(train::WeightsInfo{.config = writer.config});
  comm::require_agreement(mesh.world(), *context.compute, "the prompt or the model",
                          fingerprint(fmt::format("{} {}", model_file, writer.prompt)),
                          "give all the same");
  gpt::GPT model(writer.config);
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
  train::load_model(o.directory(), sharded);
  nn::Tape tape(context);
  nn::KeyValueCache cache(context, writer.config.block_size);
  Generator generator(static_cast<std::uint64_t>(o.seed));
  for (std::int64_t i = 0; i < o.num_samples; ++i) {
    const auto tokens = train::generate(sharded, tape, cache, writer.prompt, o, generator);
    const std::string text = writer.tokenizer->decode(tokens) + "\n---------------\n";
    if (context.rank == 0) print_alone(mesh.world(), text);
  }
}

// ---- export

void write_shards(Context& context, std::unique_ptr<comm::Communicator> world,
                  const ExportOptions& o, const train::WeightsInfo& info) {
  comm::Mesh mesh(std::move(world));
  const store::Metadata metadata = train::metadata_of(info);
  comm::require_agreement(mesh.world(), *context.compute, "the model",
                          fingerprint(fmt::format("{} {}", o.settings, metadata)),
                          "start all with the same command, and give all the same files");
  gpt::GPT model(info.config);
  fsdp::ShardedModel sharded(context, model, mesh, {.wrap_policy = fsdp::is_a<gpt::Block>});
  train::load_model(o.directory(), sharded);
  store::together(sharded, "reads weights", [&](store::FileRecord&) {
    NANOFSDP_REFUSE_IF(metadata != train::metadata_of(train::read_model_info(o.directory())),
                       .what = "weights in '" + o.directory() + "'",
                       .got = "others, which a run has saved meanwhile", .hint = "start again");
  });
  store::save_sharded_weights(o.to, sharded, metadata, o.dtype);
  const std::string text = fmt::format("saved weights in {} files: {}\n", mesh.size(), o.to);
  if (context.rank == 0) print_alone(mesh.world(), text);
}

}  // namespace

SampleOptions parse_sample_options(const std::vector<std::string>& args) {
  SampleOptions o;
  CommandLine line("sample");
  add_saved_model(line, o);
  line.add("start", o.start);
  line.add("num_samples", o.num_samples, kSize);
  line.add("max_new_tokens", o.max_new_tokens, kSize);
  line.add("temperature", o.temperature, kTemperature);
  line.add("top_k", o.top_k, kCount);
  line.add("seed", o.seed, kNoneOrMore);
  line.add("vocab", o.vocab);
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
  CommandLine line("export");
  add_saved_model(line, o);
  line.add("to", o.to);
  choose(line, "dtype", o.dtype, {{"float32", DType::float32}, {"bfloat16", DType::bfloat16}});
  add_device(line, o.device);
  parse(line, o, args);
  if (o.to.empty()) o.to = o.out_dir + "/shards";
  o.settings = line.settings({"out_dir", "pretrained", "to"});
  return o;
}

comm::RankBody prepare_sampling(const SampleOptions& options, int rank) {
  for (const std::string& note : options.notes)
    if (rank == 0) fmt::print(stderr, "note: {}\n", note);
  return [&options, writer = std::make_shared<const Writer>(read_writer(options))](
             Context& context, std::unique_ptr<comm::Communicator> world) {
    write_samples(context, std::move(world), options, *writer);
  };
}

comm::RankBody prepare_export(const ExportOptions& options, int /*rank*/) {
  const train::WeightsInfo info = train::read_model_info(options.directory());
  return [&options, info](Context& context, std::unique_ptr<comm::Communicator> world) {
    write_shards(context, std::move(world), options, info);
  };
}

}  // namespace nanofsdp::cli
