#include "comm/gloo.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>

#include <chrono>
#include <csignal>
#include <string>
#include <utility>

#include "comm/gloo_group.h"
#include "comm/platform.h"
#include "comm/self.h"

#if defined(__linux__)
#include <gloo/transport/tcp/device.h>
namespace transport = gloo::transport::tcp;
constexpr const char* kLoopback = "lo";
#else
#include <gloo/transport/uv/device.h>
namespace transport = gloo::transport::uv;
constexpr const char* kLoopback = "lo0";
#endif

#include <sys/socket.h>

namespace nanofsdp::comm {
namespace {

CommError setup_error(int rank, const char* gloo_says) {
  return CommError(CommError::Kind::setup,
                   fmt::format("rank {} could not join its group: {}", rank, gloo_says));
}

template <class F>
auto translate_errors(int rank, const F& f) {
  try {
    return f();
  } catch (const gloo::Exception& e) {
    throw setup_error(rank, e.what());
  } catch (const gloo::EnforceNotMet& e) {  // which is no gloo::Exception
    throw setup_error(rank, e.what());
  }
}

std::shared_ptr<gloo::transport::Device> create_device() {
  // By default Gloo binds to the address of the host's name, which may be anything; an interface
  // may have several addresses, so say which family as well.
  transport::attr attributes;
  attributes.iface = kLoopback;
  attributes.ai_family = AF_INET;
  std::shared_ptr<gloo::transport::Device> device;
  run_with_background_threads([&] { device = transport::CreateDevice(attributes); });
  return device;
}

// Waits until every rank has come to this point.
void meet(gloo::rendezvous::Store& store, const std::string& point, int rank, int size,
          std::chrono::milliseconds timeout) {
  store.set(fmt::format("{}.{}", point, rank), {'1'});
  for (int peer = 0; peer < size; ++peer) {
    const auto start = std::chrono::steady_clock::now();
    try {
      store.wait({fmt::format("{}.{}", point, peer)}, timeout);
    } catch (const gloo::Exception&) {
      if (std::chrono::steady_clock::now() - start < timeout) throw;
      throw gloo::Exception(fmt::format("rank {} did not come in {} ms", peer, timeout.count()));
    }
  }
}

}  // namespace

std::shared_ptr<gloo::Context> connect(const GlooFabric& fabric, const std::string& name, int rank,
                                       int size) {
  return translate_errors(rank, [&]() -> std::shared_ptr<gloo::Context> {
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    // Before connecting: this is also how long connections may take. Gloo waits five times as long.
    context->setTimeout(fabric.options.timeout);
    auto device = fabric.device;
#ifdef GLOO_STORE_HAS_STORE_V2  // upstream since 2023; Debian's is older
    const auto store = std::make_shared<gloo::rendezvous::PrefixStore>(name, fabric.store);
    auto& where = store;
#else
    const auto store = std::make_shared<gloo::rendezvous::PrefixStore>(name, *fabric.store);
    auto& where = *store;
#endif
    // Gloo's own wait for a rank that has not come is fixed at 30 seconds: see first that all have.
    meet(*store, "here", rank, size, fabric.options.connect_timeout);
    context->connectFullMesh(where, device);
    // Or a rank that is soon done would leave while another is still connecting.
    meet(*store, "connected", rank, size, fabric.options.connect_timeout);
    return context;
  });
}

std::unique_ptr<Communicator> make_gloo(Context& context, const Rendezvous& rendezvous,
                                        const GlooOptions& options) {
  if (context.world_size == 1) return make_self();
  // Gloo writes to sockets whose other end may have died; that is an error, not an end.
  std::signal(SIGPIPE, SIG_IGN);
  auto fabric = translate_errors(context.rank, [&] {
    return std::make_shared<GlooFabric>(
        GlooFabric{.device = create_device(),
                   .store = std::make_shared<gloo::rendezvous::FileStore>(rendezvous.directory),
                   .options = options,
                   .ledger = &context.ledger});
  });
  return on_streams(
      std::make_shared<GlooGroup>(std::move(fabric), "world", context.rank, context.world_size));
}

}  // namespace nanofsdp::comm
