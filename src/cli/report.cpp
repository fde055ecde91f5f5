#include "cli/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/build_info.h"
#include "base/check.h"
#include "base/file.h"
#include "bench/bench.h"
#include "bench/numbers.h"
#include "bench/planned.h"
#include "cli/explain.h"
#include "cli/option_kinds.h"
#include "cli/outputs.h"
#include "cli/overlap.h"
#include "cli/run_picture.h"
#include "cli/trace_file.h"
#include "ops/matmul.h"
#include "store/new_file.h"
#include "store/owned_directory.h"
#include "train/trainer.h"

namespace nanofsdp::cli {
namespace {

// Prints for rank 0. On other ranks its functions do nothing, except started().
//
// MFU is model FLOPs utilisation (PaLM, Chowdhery et al. 2022, appendix B): the operations per
// second of a rank, on average, over the rate that its threads can reach (bench.h), which is
// measured at the start. The operations are those of the model's products, as the operators state
// them. Only those pairs of attention count that the causal mask leaves. Their scores count twice,
// because backward computes them again; other recomputation does not count.
class Report final : public train::Listener {
 public:
  Report(const TrainOptions& options, const Context& context, const data::Dataset& dataset,
         train::Trainer& trainer)
      : options_(options), context_(context), dataset_(dataset), trainer_(trainer) {
    if (speaks_ && !options.reference.empty()) reference_ = read_reference(options.reference);
  }

  // Clears a line of progress, so that an error does not follow on it.
  ~Report() override { std::fputs(wipe_ ? "\r\x1b[K" : "", stdout), std::fflush(stdout); }

  // Prints the model, the machine and the sharding of the training that begins. Unless the run is
  // resumed, sets aside what another run saved in the directory of saved files. Makes the file of
  // metrics, to which a resumed run adds. After that, it is an error if text cannot be printed or
  // written. All ranks measure at the same time how fast their threads compute.
  void started() override {
    if (!options_.eval_only) peak_flops_ = bench::peak_flops(*context_.compute);
    if (!speaks_) return;
    fsdp::ShardedModel& model = trainer_.model();
    for (const std::string& note : options_.notes) line("note: " + note);
    std::vector<std::int64_t> units;
    for (const fsdp::Unit& unit : model.units()) units.push_back(unit.numel());
    std::int64_t parameters = 0, decayed = 0, shard = 0, padding = 0;
    for (const fsdp::ShardedParameters* row : model.rows()) {
      parameters += row->layout().total_numel();
      shard += row->layout().shard_numel();
      padding += row->layout().padding_numel();
      for (const auto* p : row->parameters()) decayed += p->shape.rank() > 1 ? p->shape.numel() : 0;
    }
    line(fmt::format("nanofsdp   {}; {} of {}{}{}", build_info(),
                     plural(context_.world_size, "rank"),
                     plural(context_.compute->threads(), "thread"),
                     context_.world_size > 1 ? ", " + name_of(options_.backend) : "",
                     context_.transport.empty() ? "" : " over " + context_.transport));
    if (!options_.eval_only) line("recipe     " + options_.recipe);
    line(fmt::format("data       {}: {} {} to train on, {} to validate", dataset_.name(),
                     grouped(dataset_.size(data::Split::train)),
                     dataset_.tokenizer().chars().empty() ? "tokens" : "characters",
                     grouped(dataset_.size(data::Split::val))));
    line(
        fmt::format("model      {} parameters: {} layers, {} heads, {} wide, {} tokens of context, "
                    "vocabulary {}",
                    grouped(parameters), options_.n_layer, options_.n_head, options_.n_embd,
                    options_.block_size, dataset_.tokenizer().vocab_size()));
    line(sharding_line(options_, model.strategy(),
                       fmt::format("{} units: {}", units.size(), unit_sizes(units)), shard,
                       padding));
    const double tokens = 1.0 * options_.tokens_of_step() / context_.world_size;
    if (!options_.eval_only) flops_ = tokens * plan(gpt::Recompute::none).products;
    title_ = fmt::format("{} parameters, {} over {}", grouped(parameters),
                         fsdp::name_of(model.strategy()), plural(context_.world_size, "rank"));
    line(fmt::format("optimizer  AdamW, {} parameters decay, {} do not", grouped(decayed),
                     grouped(parameters - decayed)));
    std::string memory;
    for (const MemoryClass c : kMemoryClasses) {
      const std::int64_t bytes = context_.ledger.count(c).reserved;
      if (c == MemoryClass::activations || c == MemoryClass::communication || bytes == 0) continue;
      memory += fmt::format("{}{} {}", memory.empty() ? "" : ", ", name_of(c), megabytes(bytes));
    }
    line("a rank     " + memory);
    if (!options_.products.empty()) line("products   the fastest, as in " + options_.products);
    open_files();
    if (!options_.explain || options_.eval_only) return;
    line("\nunits, and what each rank of a group keeps of them\n" + explain_layouts(model.units()) +
         explain_plan(plan(options_.recompute)));
  }

  void resumed(const std::string& checkpoint, std::int64_t iteration) override {
    line(fmt::format("resumed    {} at iteration {}", checkpoint, grouped(iteration)));
    if (speaks_ && std::filesystem::is_regular_file(options_.metrics))
      curves_.read(options_.metrics, {.what = "--metrics"}, iteration);
  }

  void step(std::int64_t iteration, const train::StepResult& result) override {
    step_seconds_ += result.seconds;
    ++steps_;
    if (!speaks_) return;
    const comm::Traffic traffic = trainer_.mesh().traffic();
    const auto tokens = static_cast<double>(options_.tokens_of_step());
    const bool is_logged = iteration % options_.log_interval == 0;
    if (is_logged || !options_.metrics.empty()) {
      nlohmann::ordered_json peak;
      for (const MemoryClass c : kMemoryClasses)
        peak[std::string(name_of(c))] = context_.ledger.count(c).reserved_peak;
      nlohmann::ordered_json json = {
          {"iter", iteration},
          {"loss", result.loss},
          {"grad_norm", result.grad_norm},
          {"lr", result.lr},
          {"ms", result.seconds * 1e3},
          {"tokens_per_s", tokens / result.seconds},
          {"bytes_sent", traffic.bytes_sent - traffic_.bytes_sent},
          {"bytes_received", traffic.bytes_received - traffic_.bytes_received},
          {"peak_bytes", peak}};
      if (peak_flops_ > 0) json["mfu"] = utilisation(result.seconds);
      record(json);
    }
    last_step_ = traffic - traffic_;
    traffic_ = traffic;
    if (!is_logged) return;
    // A line of progress has the means of all steps. A line that stays has this step's numbers.
    const double seconds = terminal_ ? step_seconds_ / static_cast<double>(steps_) : result.seconds;
    const std::string rate = grouped(static_cast<std::int64_t>(tokens / seconds));
    const std::string mfu =
        peak_flops_ > 0 ? fmt::format(", mfu {:.1f}%", 1e2 * utilisation(seconds)) : "";
    if (terminal_) {
      const auto left = static_cast<std::int64_t>(1.0 * (options_.max_iters - iteration) * seconds);
      line(fmt::format("iter {}/{}: loss {:.4f}, {} tokens/s, {}:{:02} left", iteration,
                       options_.max_iters, result.loss, rate, left / 60, left % 60),
           /*stays=*/false);
    } else {
      line(fmt::format("iter {}: loss {:.4f}, time {:.2f}ms, {} tokens/s{}", iteration, result.loss,
                       result.seconds * 1e3, rate, mfu));
    }
  }

  void evaluation(std::int64_t iteration, const train::EvalResult& result) override {
    last_evaluation_ = result;
    line(fmt::format("step {}: train loss {:.4f}, val loss {:.4f}", iteration, result.train_loss,
                     result.val_loss));
    if (!speaks_) return;
    record({{"iter", iteration}, {"train_loss", result.train_loss}, {"val_loss", result.val_loss}});
  }

  void saved(const std::string& path) override { line("saved " + path); }
  void sample(const std::string& text) { line("\n--- a sample ---\n" + text); }

  // Draws the run so far as a picture in the directory of saved files (run_picture.h). Before the
  // first step it draws nothing, so the picture of an earlier run stays.
  void settled() override {
    if (!speaks_ || !options_.saves() || steps_ == 0) return;
    const auto busy = trainer_.mesh().world().busy("draws the run");
    store::write_new_file(run_picture_path(options_.out_dir),
                          draw_run(title_, curves_, reference_, context_.ledger));
  }

  void print_final_table() {
    if (!speaks_) return;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const comm::Traffic t = trainer_.mesh().traffic();
    const Ledger& ledger = context_.ledger;
    Overlap hidden;
    if (spans_say_when_work_ran(context_.device)) hidden = overlap(context_.tracer.spans());
    line(fmt::format("\nloss       train {:.4f}, val {:.4f}", last_evaluation_.train_loss,
                     last_evaluation_.val_loss));
    const double mean = step_seconds_ / static_cast<double>(std::max<std::int64_t>(steps_, 1));
    line(fmt::format("time       {:.1f} s, of which {} took {:.1f} s, {:.2f} ms each",
                     elapsed.count(), plural(steps_, "step"), step_seconds_, 1e3 * mean));
    if (steps_ > 0 && peak_flops_ > 0)
      line(
          fmt::format("mfu        {:.1f} %: a rank's part of the model's arithmetic is {:.1f} "
                      "GFLOP/s, of {:.1f} that its threads can do",
                      1e2 * utilisation(mean), 1e-9 * flops_ / mean, 1e-9 * peak_flops_));
    if (t.bytes_sent > 0)
      line(
          fmt::format("moved      in its steps a rank sent {} and received {}: {} all-gathers, {} "
                      "reduce-scatters, {} all-reduces",
                      megabytes(t.bytes_sent), megabytes(t.bytes_received), grouped(t.all_gathers),
                      grouped(t.reduce_scatters), grouped(t.all_reduces)));
    if (hidden.communication > 0)
      line(fmt::format(
          "overlap    of {:.1f} ms of communication in {}, {:.1f} ms were exposed: {:.0f} "
          "% hidden, of {:.0f} % that the schedule allows",
          1e3 * hidden.communication, plural(std::min(train::kTracedSteps, steps_), "step"),
          1e3 * hidden.exposed, 1e2 * hidden.hidden_share(), 1e2 * hidden.hidden_share_bound()));
    line(fmt::format("peak       {} a rank:", megabytes(ledger.total_peak())));
    for (const MemoryClass c : kMemoryClasses) {
      const std::int64_t peak = ledger.count(c).reserved_peak;
      if (peak > 0) line(fmt::format("           {:<21} {:>14} bytes", name_of(c), grouped(peak)));
    }
    if (options_.explain && steps_ > 0)
      line("\n" + explain_plan(plan(options_.recompute), ledger, last_step_));
  }

 private:
  double utilisation(double seconds) const { return flops_ / seconds / peak_flops_; }
  // The plan of this rank.
  plan::Plan plan(gpt::Recompute recompute) const {
    const bool on_cuda = context_.device == Device::cuda;
    const auto model = bench::planned_gpt(
        train::config_of(options_, dataset_.tokenizer().vocab_size()), recompute);
    comm::RanksOptions ranks = options_;
    ranks.ranks = context_.world_size;  // a launcher may have set the number
    const plan::Run run =
        bench::planned_run(options_, ranks, context_.rank, context_.compute->threads(),
                           on_cuda ? Device::simulated_cuda : Device::simulated_cpu,
                           context_.shared ? context_.shared->parts() : 1);
    return plan::plan(*model, run);
  }

  // If it does not stay, the next line replaces it, as in progress.
  void line(const std::string& text, bool stays = true) {
    if (!speaks_) return;
    print_alone(trainer_.mesh().world(),
                (std::exchange(wipe_, !stays) ? "\r\x1b[K" : "") + text + (stays ? "\n" : ""));
  }

  // All checks that come before training have passed when this function touches the files.
  void open_files() {
    const auto busy = trainer_.mesh().world().busy("opens its files");
    if (options_.saves() && !options_.resumes()) {
      const auto aside = store::set_aside(
          options_.out_dir,
          {"checkpoint", "checkpoint.previous", "checkpoint.new", "model.safetensors", "run.svg"});
      if (!aside.empty()) line("set aside  what another run saved here: " + aside.string());
    }
    if (options_.metrics.empty()) return;
    if (options_.resumes() && std::filesystem::is_regular_file(options_.metrics)) {
      // A run that was killed, or that met a full disk, may have left half a line at the end.
      const std::string text = read_file(options_.metrics, {.what = "--metrics"}, UINT64_MAX);
      std::filesystem::resize_file(options_.metrics, text.rfind('\n') + 1);
    }
    metrics_.open(options_.metrics, options_.resumes() ? std::ios::app : std::ios::out);
    NANOFSDP_REFUSE_IF(!metrics_, .what = "cannot write --metrics", .got = std::strerror(errno));
  }

  // Adds a line of metrics to the curves, and to the file if there is one.
  void record(const nlohmann::ordered_json& json) {
    curves_.add(json);
    const auto busy = trainer_.mesh().world().busy("writes metrics");
    if (options_.metrics.empty() || metrics_ << json.dump() << '\n' << std::flush) return;
    NANOFSDP_REFUSE(.what = "cannot write --metrics", .got = std::strerror(errno));
  }

  const TrainOptions& options_;
  const Context& context_;
  const data::Dataset& dataset_;
  train::Trainer& trainer_;
  bool speaks_ = context_.rank == 0;
  bool terminal_ = speaks_ && isatty(STDOUT_FILENO) != 0;
  bool wipe_ = false;  // whether the next line replaces the last one
  std::ofstream metrics_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  comm::Traffic traffic_;    // traffic until the end of the last step
  comm::Traffic last_step_;  // traffic of the last step
  double flops_ = 0;         // the model's operations of a rank in a step, on average
  double peak_flops_ = 0;    // operations that a rank can reach in a second; 0: unknown
  std::string title_;        // title of the picture
  Curves curves_, reference_;
  double step_seconds_ = 0;
  std::int64_t steps_ = 0;
  train::EvalResult last_evaluation_;
};

}  // namespace

void train_and_report(Context& context, std::unique_ptr<comm::Communicator> world,
                      const TrainOptions& options, const data::Dataset& dataset) {
  if (!options.products.empty()) ops::take_fastest_products(*context.compute, options.products);
  train::Trainer trainer(context, std::move(world), options, dataset);
  Report report(options, context, dataset, trainer);
  trainer.run(report);
  if (options.eval_only) return;
  report.print_final_table();
  if (options.sample > 0) report.sample(trainer.sample(options.sample));
  if (!options.trace.empty()) write_trace(context, trainer.mesh(), options.trace);
}

}  // namespace nanofsdp::cli
