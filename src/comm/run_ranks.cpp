#include "comm/run_ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/cuda.h"
#include "base/file.h"
#include "comm/local.h"
#include "launch/launch.h"

namespace nanofsdp::comm {
namespace {

// Whether this build has Gloo. If it has not, make_gloo() is never called.
#ifdef NANOFSDP_GLOO
constexpr bool kGloo = true;
#else
constexpr bool kGloo = false;
#endif

void require_processes(const RanksOptions& options) {
  const Backend backend = options.backend;
  NANOFSDP_REFUSE_IF(backend == Backend::local, .what = "backend local",
                     .expected = "ranks that are threads of one process",
                     .got = "processes that a launcher has started",
                     .hint = "use another backend, or unset the launcher's variables");
  const bool gloo = backend == Backend::gloo;
  NANOFSDP_REFUSE_IF(gloo == (options.device == Device::cuda),
                     .what = "backend " + name_of(backend),
                     .expected = gloo ? "device cpu" : "device cuda", .got = gloo ? "cuda" : "cpu");
  if (gloo ? kGloo : kCuda) return;
  NANOFSDP_REFUSE(.what = "backend " + name_of(backend),
                  .expected = gloo ? "a build with Gloo" : "a build with CUDA and NCCL",
                  .got = "one without",
                  .hint = gloo ? "use the backend local, or build with -DNANOFSDP_GLOO=ON"
                               : "use the backend gloo, or build with -DNANOFSDP_CUDA=ON");
}

std::unique_ptr<Communicator> connect(Context& context, launch::Store& store,
                                      const RanksOptions& options) {
  const std::chrono::seconds timeout(options.timeout);
  if constexpr (kCuda) {
    if (options.backend == Backend::nccl) {
      context.transport = options.reduction == Reduction::ring ? "its ring" : "ordered sends";
      return make_nccl(context, store,
                       {.timeout = timeout,
                        .connect_timeout = options.patience(),
                        .reduction = options.reduction,
                        .share_gpu = must_share_gpu(store.local_size(), nanofsdp::cuda::count())});
    }
  }
  if constexpr (kGloo) {
    return make_gloo(context, store, {.timeout = timeout, .transport = options.transport});
  }
  return nullptr;
}

int start_ranks(const RanksOptions& options, const RankBody& body) {
  const int ranks = options.ranks, threads = threads_per_rank(options, ranks);
  if (ranks == 1) {
    Context context(0, 1, threads, options.device);
    body(context, make_self());
    return 0;
  }
  if (options.backend == Backend::local) {
    launch_threads(ranks, threads, body,
                   {.timeout = std::chrono::seconds(options.timeout), .device = options.device});
    return 0;
  }
  require_processes(options);
  RanksOptions each = options;
  each.threads = threads;
  return launch::tell(launch::run_processes(
      ranks, [&](launch::Store& store) { run_rank(store, each, body); }, options.patience()));
}

}  // namespace

Backend default_backend() { return kGloo ? Backend::gloo : Backend::local; }

std::string name_of(Backend backend) {
  using enum Backend;
  return backend == gloo ? "gloo" : backend == nccl ? "nccl" : "local";
}

int threads_per_rank(const RanksOptions& options, int local_ranks, int cores) {
  if (options.threads > 0) return options.threads;
  return std::max(1, cores / std::max(1, local_ranks > 0 ? local_ranks : options.ranks));
}

int run_ranks(const RanksOptions& options, const RankBody& body) try {
  NANOFSDP_REFUSE_IF(options.timeout < 1, "timeout", "1 or more", std::to_string(options.timeout));
  keep_freed_memory();
  prepare_for_output();
  auto rendezvous = launch::rendezvous_from([](const char* name) { return std::getenv(name); });
  if (!rendezvous) return with_named_errors([&] { return start_ranks(options, body); });
  rendezvous->patience = options.patience();
  return launch::tell(
      launch::join(*rendezvous, [&](launch::Store& store) { run_rank(store, options, body); }));
} catch (const std::exception& error) {
  std::fprintf(stderr, "nanofsdp: %s\n", error.what());
  return dynamic_cast<const UsageError*>(&error) != nullptr ? 2 : 1;
}

void run_rank(launch::Store& store, const RanksOptions& options, const RankBody& body) {
  require_processes(options);  // before the program asks for a GPU
  // A launcher may give each rank cores of its own, or all ranks the same ones. A rank cannot tell
  // which without asking the others, so it takes its part of the machine, at most what it may use.
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const int part = threads_per_rank(options, store.local_size(), cores);
  const int threads = options.threads > 0 ? part : std::min(part, count_cores());
  Context context(store.rank(), store.size(), threads, options.device, store.local_rank());
  body(context, connect(context, store, options));
}

}  // namespace nanofsdp::comm
