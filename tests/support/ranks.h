#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/context.h"
#include "base/cuda.h"
#include "comm/communicator.h"
#include "comm/gloo.h"
#include "comm/local.h"
#include "comm/nccl.h"
#include "launch/launch.h"
#include "support/device.h"

namespace nanofsdp::testing {

/// @file
/// @brief Runs one test body on ranks that are threads or processes.
///
///     const auto sums = run_ranks(backend, 4, [](Context& context, comm::Communicator& world) {
///       ...                          // EXPECT_* here fail the test, whatever the backend
///       return std::vector<float>{...};
///     });                            // sums[rank], to compare over ranks and backends

/// With `shared` and `gloo`, ranks are processes, which share memory or send everything. With
/// `nccl`, they are processes that share a GPU.
enum class Backend { self, local, gloo, shared, nccl };

inline std::string name_of(Backend backend) {
  static constexpr const char* kNames[] = {"self", "local", "gloo", "shared", "nccl"};
  return kNames[static_cast<int>(backend)];
}

#if defined(__SANITIZE_THREAD__)
#define NANOFSDP_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NANOFSDP_TSAN 1
#endif
#endif

/// The backends for groups of several ranks. Gloo is left out under the thread sanitizer, which
/// does not see inside the library, and for tensors on a GPU.
inline std::vector<Backend> backends() {
#if defined(NANOFSDP_TSAN) || defined(NANOFSDP_TEST_CUDA)
  return {Backend::local};
#else
  return {Backend::local, Backend::gloo, Backend::shared};
#endif
}

/// A rank of run_ranks threw. The message is the text of the first cause.
class RankError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RankOptions {
  int threads = 1;                                       ///< threads of each rank's compute stream
  comm::Reduction reduction = comm::Reduction::ordered;  ///< for the backend nccl
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

namespace detail {

using Bytes = std::vector<std::byte>;
// Any body has this type, so that the code below is compiled once and not for each body.
using AnyBody = std::function<Bytes(Context&, std::unique_ptr<comm::Communicator>)>;

// Calls the body with the communicator or, if it takes ownership, with the unique_ptr.
template <class Body>
auto call(const Body& body, Context& context, std::unique_ptr<comm::Communicator> world) {
  if constexpr (std::is_invocable_v<const Body&, Context&, std::unique_ptr<comm::Communicator>>) {
    return body(context, std::move(world));
  } else {
    return body(context, *world);
  }
}

// The result of a body as bytes: nothing, or a vector of numbers.
template <class Body>
Bytes run_body(const Body& body, Context& context, std::unique_ptr<comm::Communicator> world) {
  if constexpr (std::is_void_v<decltype(call(body, context, std::move(world)))>) {
    call(body, context, std::move(world));
    return {};
  } else {
    const auto values = call(body, context, std::move(world));
    Bytes bytes(values.size() * sizeof(values[0]));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
}

// A file without a name that parent and children share. A forked rank reports through it.
class Mailbox {
 public:
  Mailbox() : file_(std::tmpfile()) {
    if (file_ == nullptr) throw std::runtime_error("run_ranks: no temporary file");
  }
  ~Mailbox() { std::fclose(file_); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void put(const void* data, std::size_t bytes) {
    std::fwrite(&bytes, sizeof bytes, 1, file_);
    if (bytes > 0) std::fwrite(data, 1, bytes, file_);
    std::fflush(file_);
  }
  void rewind() { std::rewind(file_); }
  Bytes get() {
    std::size_t size = 0;
    if (std::fread(&size, sizeof size, 1, file_) != 1) return {};
    Bytes bytes(size);
    if (size > 0 && std::fread(bytes.data(), 1, size, file_) != size) bytes.clear();
    return bytes;
  }

 private:
  std::FILE* file_;
};

inline std::unique_ptr<comm::Communicator> connect(Backend backend, Context& context,
                                                   launch::Store& store,
                                                   const RankOptions& options) {
  if constexpr (kCuda) {
    if (backend == Backend::nccl) {
      return comm::make_nccl(
          context, store,
          {.timeout = options.timeout, .reduction = options.reduction, .share_gpu = true});
    }
  }
  using comm::Transport;
  return comm::make_gloo(
      context, store,
      {.timeout = options.timeout,
       .transport = backend == Backend::shared ? Transport::shared : Transport::gloo});
}

inline void run_forked_rank(Backend backend, const AnyBody& body, launch::Store& store,
                            const RankOptions& options, Mailbox& mailbox) {
  ::testing::TestPartResultArray failures;
  Bytes result;
  {
    using Reporter = ::testing::ScopedFakeTestPartResultReporter;
    Reporter reporter(Reporter::INTERCEPT_ALL_THREADS, &failures);
    const Device device = backend == Backend::nccl ? Device::cuda : Device::cpu;
    Context context(store.rank(), store.size(), options.threads, device);
    auto world = connect(backend, context, store, options);
    result = body(context, std::move(world));
  }
  std::string text;
  for (int i = 0; i < failures.size(); ++i) {
    const auto& f = failures.GetTestPartResult(i);
    if (!f.failed()) continue;
    text += std::string(f.file_name() ? f.file_name() : "?") + ":" +
            std::to_string(f.line_number()) + ": " + f.message() + "\n";
  }
  mailbox.put(text.data(), text.size());
  mailbox.put(result.data(), result.size());
}

inline std::vector<Bytes> run(Backend backend, int world_size, const AnyBody& body,
                              const RankOptions& options) {
  std::vector<Bytes> results(static_cast<std::size_t>(world_size));
  if (backend == Backend::gloo || backend == Backend::shared || backend == Backend::nccl) {
    std::vector<Mailbox> mailboxes(static_cast<std::size_t>(world_size));
    const launch::Outcome outcome = launch::run_processes(world_size, [&](launch::Store& store) {
      run_forked_rank(backend, body, store, options, mailboxes[store.rank()]);
    });
    for (int rank = 0; rank < world_size; ++rank) {
      mailboxes[rank].rewind();
      const Bytes text = mailboxes[rank].get();
      results[rank] = mailboxes[rank].get();
      if (!text.empty()) {
        ADD_FAILURE() << "rank " << rank << ":\n"
                      << std::string(reinterpret_cast<const char*>(text.data()), text.size());
      }
    }
    if (outcome.exit_code != 0) throw RankError(outcome.message);
    return results;
  }
  std::mutex mutex;
  const auto rank_body = [&](Context& context, std::unique_ptr<comm::Communicator> world) {
    Bytes result = body(context, std::move(world));
    const std::lock_guard lock(mutex);
    results[context.rank] = std::move(result);
  };
  try {
    if (backend == Backend::self) {
      Context context(0, 1, options.threads, kDevice);
      rank_body(context, comm::make_self());
    } else {
      comm::launch_threads(world_size, options.threads, rank_body,
                           {.timeout = options.timeout, .device = kDevice});
    }
  } catch (const std::exception& e) {
    throw RankError(e.what());
  }
  return results;
}

}  // namespace detail

/// Runs `body(Context&, comm::Communicator&)` or `body(Context&, std::unique_ptr<Communicator>)` on
/// every rank. If the body returns a vector of numbers, run_ranks returns one vector for each rank.
/// @throws RankError if a rank throws or is killed
template <class Body>
auto run_ranks(Backend backend, int world_size, const Body& body, const RankOptions& options = {}) {
  using Result =
      decltype(detail::call(body, std::declval<Context&>(), std::unique_ptr<comm::Communicator>()));
  const std::vector<detail::Bytes> results = detail::run(
      backend, world_size,
      [&](Context& context, std::unique_ptr<comm::Communicator> world) {
        return detail::run_body(body, context, std::move(world));
      },
      options);
  if constexpr (!std::is_void_v<Result>) {
    using T = typename Result::value_type;
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::vector<T>> values;
    for (const detail::Bytes& bytes : results) {
      std::vector<T> one(bytes.size() / sizeof(T));
      if (!one.empty()) std::memcpy(one.data(), bytes.data(), bytes.size());
      values.push_back(std::move(one));
    }
    return values;
  }
}

}  // namespace nanofsdp::testing
