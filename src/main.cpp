/// @file
/// @brief nanofsdp: train, evaluate and sample a GPT with fully sharded data parallelism.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/build_info.h"
#include "base/file.h"
#include "base/platform.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/outputs.h"

namespace {

constexpr const char* kHelp =
    "nanofsdp trains a nanoGPT with Fully Sharded Data Parallelism.\n"
    "\n"
    "  nanofsdp train [CONFIG] [--name=value ...]        train, and print a sample\n"
    "  nanofsdp eval --out_dir=DIR [--name=value ...]    print the losses of a saved model\n"
    "  nanofsdp sample --out_dir=DIR [--name=value ...]  let a saved model write\n"
    "  nanofsdp export --out_dir=DIR [--name=value ...]  save its weights in one file a rank\n"
    "  nanofsdp compare [CONFIG] [--name=value ...]      train the same under ZeRO-0 to 3\n"
    "  nanofsdp plan [CONFIG] [--name=value ...]         predict memory, traffic and time\n"
    "  nanofsdp bench [--name=value ...]                 measure operators, collectives, steps\n"
    "\n"
    "`nanofsdp train --help` and so on list the options that most runs need, --help=all lists\n"
    "every option; `nanofsdp --version` says which one this is.\n";

// The process that the user has started. Ranks may be its children.
const pid_t kFirst = getpid();

// A destructor of nlohmann's JSON takes memory. If there is none, no exception can leave it, and
// the program ends here. Saved files are whole.
[[noreturn]] void end_without_memory() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%smemory ran out; use fewer ranks, less batch or a smaller model\n",
                 getpid() == kFirst ? "nanofsdp: " : "  ");
    std::_Exit(1);
  } catch (...) {  // a bug
  }
  std::abort();
}

int run(const std::vector<std::string>& args) try {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(kHelp, stdout);
    return args.empty() ? 2 : 0;
  }
  if (args[0] == "--version") {
    std::printf("nanofsdp %d.%d.%d (%s)\n", NANOFSDP_VERSION_MAJOR, NANOFSDP_VERSION_MINOR,
                NANOFSDP_VERSION_PATCH, nanofsdp::build_info().c_str());
    return 0;
  }
  return nanofsdp::cli::run_command(args[0], {args.begin() + 1, args.end()});
} catch (const nanofsdp::cli::HelpRequested& help) {
  std::fputs(help.text.c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  nanofsdp::keep_freed_memory();
  std::set_terminate(end_without_memory);
  try {
    nanofsdp::prepare_for_output();
    const int exit_code = nanofsdp::with_named_errors([&] { return run({argv + 1, argv + argc}); });
    // For another exit code, an error has been printed already.
    if (exit_code == 0) nanofsdp::cli::flush_stdout();
    return exit_code;
  } catch (const nanofsdp::UsageError& error) {
    std::fprintf(stderr, "nanofsdp: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nanofsdp: %s\n", error.what());
    return 1;
  }
}
