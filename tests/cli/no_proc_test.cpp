#if defined(__linux__)
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/own_machine.h"
#include "support/process.h"
#include "support/temporary_directory.h"

namespace nanofsdp::testing {
namespace {

// A container or a chroot may lack /proc. Then ranks use TCP, and a run trains, saves and resumes.
TEST(WithoutProc, RanksTrainAndSaveAndResume) {
  const TemporaryDirectory directory;
  on_own_machine(CLONE_NEWNS, [&]() -> std::string {
    if (!replace("/proc")) return "cannot replace /proc";
    for (const std::string from : {"scratch", "resume"}) {
      Process run(directory.file(""),
                  {"train", "--ranks=2", "--n_layer=1", "--n_embd=16", "--n_head=2", "--sample=0",
                   "--max_iters=2", "--eval_iters=1", "--init_from=" + from, "--out_dir=out"});
      if (run.wait(std::chrono::seconds(60)) != 0) return run.err();
      if (run.out().find("TCP (the system does not tell") == std::string::npos) return run.out();
      if (!std::filesystem::exists(directory.file("out/model.safetensors"))) return "no weights";
      if (from == "resume" && run.out().find("resume") == std::string::npos) return run.out();
    }
    return "";
  });
}

}  // namespace
}  // namespace nanofsdp::testing
#endif
