#include "comm/gloo_wire.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include <sys/socket.h>

#include "base/platform.h"

namespace nanofsdp::comm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Runs `f`. What Gloo has to say if it fails, without the place in its source; empty if it does
// not.
template <class F>
std::string complaint_of(const F& f) {
  std::string text;
  try {
    f();
    return "";
  } catch (const std::exception& e) {  // gloo::EnforceNotMet is no gloo::Exception
    text = e.what();
  }
  const auto end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

void check_setup(int rank, const std::string& complaint) {
  if (complaint.empty()) return;
  throw CommError(CommError::Kind::setup,
                  fmt::format("rank {} could not join its group: {}", rank, complaint));
}

// Waits until every rank has come to this point.
void meet(gloo::rendezvous::Store& store, const std::string& point, int rank, int size,
          milliseconds timeout) {
  store.set(fmt::format("{}.{}", point, rank), {'1'});
  for (int peer = 0; peer < size; ++peer) {
    const auto start = steady_clock::now();
    try {
      store.wait({fmt::format("{}.{}", point, peer)}, timeout);
    } catch (const gloo::Exception&) {
      if (steady_clock::now() - start < timeout) throw;
      throw gloo::Exception(fmt::format("rank {} did not come in {} ms", peer, timeout.count()));
    }
  }
}

}  // namespace

struct GlooFabric {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::rendezvous::Store> store;
  GlooOptions options;
};

std::shared_ptr<GlooFabric> open_fabric(int rank, const Rendezvous& rendezvous,
                                        const GlooOptions& options) {
  // Gloo writes to sockets whose other end may have died; that is an error, not an end.
  std::signal(SIGPIPE, SIG_IGN);
  auto fabric = std::make_shared<GlooFabric>();
  fabric->options = options;
  // To Gloo, 0 and very large values mean: at once.
  fabric->options.timeout = std::clamp<milliseconds>(options.timeout, 1ms, 24h);
  check_setup(rank, complaint_of([&] {
                // By default Gloo binds to the address of the host's name, which may be anything;
                // and an interface may have several addresses.
                gloo::transport::tcp::attr attributes;
                attributes.iface = "lo";
                attributes.ai_family = AF_INET;
                run_with_background_threads(
                    [&] { fabric->device = gloo::transport::tcp::CreateDevice(attributes); });
                fabric->store = std::make_shared<gloo::rendezvous::FileStore>(rendezvous.directory);
              }));
  return fabric;
}

GlooWire::GlooWire(std::shared_ptr<GlooFabric> fabric, const std::string& name, int rank, int size)
    : fabric_(std::move(fabric)) {
  check_setup(rank, complaint_of([&] {
                auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
                context_ = context;
                // Before connecting: it holds for that too, five times.
                context->setTimeout(fabric_->options.timeout);
#ifdef GLOO_STORE_HAS_STORE_V2  // upstream since 2023; Debian's is older
                const auto store =
                    std::make_shared<gloo::rendezvous::PrefixStore>(name, fabric_->store);
                auto& where = store;
#else
                const auto store =
                    std::make_shared<gloo::rendezvous::PrefixStore>(name, *fabric_->store);
                auto& where = *store;
#endif
                // Gloo's own wait for a rank is fixed at 30 seconds: see first that all have come;
                // and a rank that is soon done must not leave while another is still connecting.
                const milliseconds timeout = fabric_->options.connect_timeout;
                meet(*store, "here", rank, size, timeout);
                context->connectFullMesh(where, fabric_->device);
                meet(*store, "connected", rank, size, timeout);
              }));
}

GlooWire::~GlooWire() = default;  // not closeConnections(), which drops what is on its way

void GlooWire::abort(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_.empty()) return;
    aborted_ = reason;
    for (gloo::transport::UnboundBuffer* buffer : under_way_) {
      buffer->abortWaitSend();
      buffer->abortWaitRecv();
    }
  }
  complaint_of([&] { context_->closeConnections(); });
}

void GlooWire::check_not_aborted() const {
  if (!aborted_.empty()) throw WireError{CommError::Kind::aborted, "gave up: " + aborted_};
}

void GlooWire::fail(int peer, bool timed_out, const std::string& gloo_says) {
  {
    const std::lock_guard lock(mutex_);
    check_not_aborted();
  }
  // Gloo signals an error to some waiters only. Close the rest: no pointer into our memory remains.
  abort(fmt::format("the connection to rank {} failed", peer));
  if (!timed_out) {
    throw WireError{CommError::Kind::peer_lost, fmt::format("lost rank {} ({})", peer, gloo_says)};
  }
  throw WireError{CommError::Kind::timeout, fmt::format("waited {} ms in vain for rank {}",
                                                        fabric_->options.timeout.count(), peer)};
}

GlooWire::Message::Message(GlooWire& wire, Way way, int peer, std::uint64_t slot,
                           const void* memory, std::size_t bytes)
    : wire_(wire), way_(way), peer_(peer) {
  buffer_ = wire.context_->createUnboundBuffer(const_cast<void*>(memory), bytes);
  {
    const std::lock_guard lock(wire.mutex_);
    wire.check_not_aborted();
    wire.under_way_.push_back(buffer_.get());
  }
  const std::string complaint = complaint_of([&] {
    way == Way::send ? buffer_->send(peer, slot, 0, bytes) : buffer_->recv(peer, slot, 0, bytes);
  });
  if (complaint.empty()) return;
  forget();
  wire.fail(peer, false, complaint);
}

GlooWire::Message::~Message() { forget(); }

void GlooWire::Message::forget() {
  const std::lock_guard lock(wire_.mutex_);
  std::erase(wire_.under_way_, buffer_.get());
}

void GlooWire::Message::wait() {
  const milliseconds timeout = wire_.fabric_->options.timeout;
  const auto start = steady_clock::now();
  bool done = false;
  const std::string complaint = complaint_of([&] {
    done = way_ == Way::send ? buffer_->waitSend(nullptr, timeout)
                             : buffer_->waitRecv(nullptr, timeout);
  });
  if (!done) wire_.fail(peer_, steady_clock::now() - start >= timeout, complaint);
}

}  // namespace nanofsdp::comm
