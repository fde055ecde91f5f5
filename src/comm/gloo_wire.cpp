#include "comm/gloo_wire.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
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

void check_setup(launch::Store& store, const std::string& complaint) {
  if (complaint.empty()) return;
  const std::string cause = store.roll_call();  // if another rank is the reason
  throw CommError(CommError::Kind::setup,
                  fmt::format("rank {} could not join its group: {}", store.rank(),
                              cause.empty() ? complaint : cause));
}

using launch::Store;

// Gloo's view of the store: the corner that belongs to one group.
class Corner final : public gloo::rendezvous::Store, public std::enable_shared_from_this<Corner> {
 public:
  Corner(launch::Store& store, std::string name, milliseconds timeout)
      : store_(store), name_(std::move(name)), timeout_(timeout) {}

  // Before April 2025 Gloo asked for a Store&, since then it asks for this pointer. None of its
  // macros says which it is, but the compiler knows: a Corner& converts to either.
  operator std::shared_ptr<gloo::rendezvous::Store>() { return shared_from_this(); }

  void set(const std::string& key, const std::vector<char>& value) override {
    store_.set(key_of(key), {value.begin(), value.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = value_of(key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    for (const std::string& key : keys) value_of(key, timeout);
  }

  // Waits until every rank of the group has come to this point.
  void meet(const std::string& point, const std::vector<int>& members, milliseconds timeout) {
    store_.set(key_of(fmt::format("{}.{}", point, store_.rank())), "");
    for (const int peer : members) {
      if (store_.get(key_of(fmt::format("{}.{}", point, peer)), timeout)) continue;
      throw gloo::Exception(fmt::format("rank {} did not come in {} ms", peer, timeout.count()));
    }
  }

 private:
  std::string key_of(const std::string& key) const { return name_ + "/" + key; }
  std::string value_of(const std::string& key, milliseconds timeout) {
    auto value = store_.get(key_of(key), timeout);
    if (!value) {  // Gloo's keys end with the rank
      const std::string peer = key.substr(std::min(key.find_first_of("0123456789"), key.size()));
      throw gloo::Exception(fmt::format("no address of rank {} in {} ms", peer, timeout.count()));
    }
    return std::move(*value);
  }

  launch::Store& store_;
  const std::string name_;
  const milliseconds timeout_;
};

}  // namespace

struct GlooFabric {
  const std::shared_ptr<Run> run;
  std::shared_ptr<gloo::transport::Device> device{};
};

std::shared_ptr<GlooFabric> open_fabric(std::shared_ptr<Run> run) {
  // Gloo writes to sockets whose other end may have died; that is an error, not an end.
  std::signal(SIGPIPE, SIG_IGN);
  auto fabric = std::make_shared<GlooFabric>(GlooFabric{std::move(run)});
  Store& store = fabric->run->store;
  check_setup(store, complaint_of([&] {
                // By default Gloo binds to the address of the host's name, which may be anything;
                // and an interface may have several addresses.
                gloo::transport::tcp::attr attributes;
                attributes.iface = store.interface();
                attributes.hostname = store.interface().empty() ? store.address() : "";
                attributes.ai_family = AF_INET;
                run_with_background_threads(
                    [&] { fabric->device = gloo::transport::tcp::CreateDevice(attributes); });
              }));
  return fabric;
}

namespace {

// Connects the ranks that meet under `name`.
std::shared_ptr<gloo::Context> connect(GlooFabric& fabric, const std::string& name, int rank,
                                       const std::vector<int>& members) {
  const Run& run = *fabric.run;
  auto context =
      std::make_shared<gloo::rendezvous::Context>(rank, static_cast<int>(members.size()));
  check_setup(run.store, complaint_of([&] {
                // Gloo waits five times this for a peer to connect, whoever is lost meanwhile; and
                // all are there. Messages have a time of their own.
                context->setTimeout(std::min<milliseconds>(run.timeout, 4s));
                const milliseconds patience = run.connect_timeout;
                auto corner = std::make_shared<Corner>(run.store, name, patience);
                // Gloo's own wait for a rank is fixed at 30 seconds: see first that all have come;
                // and a rank that is soon done must not leave while another is still connecting.
                corner->meet("here", members, patience);
                context->connectFullMesh(*corner, fabric.device);
                // Longer than a rank may take to connect: it knows better who it was that did not.
                corner->meet("connected", members, 2 * patience);
              }));
  return context;
}

}  // namespace

GlooWire::GlooWire(std::shared_ptr<GlooFabric> fabric, const std::string& name, int rank,
                   std::vector<int> members)
    : fabric_(std::move(fabric)),
      context_(connect(*fabric_, name, rank, members)),
      peers_(fabric_->run, std::move(members), [this] { cut(); }) {}

// No closeConnections(), which drops what is on its way.
GlooWire::~GlooWire() = default;

void GlooWire::cut() noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (gloo::transport::UnboundBuffer* buffer : under_way_) {
      buffer->abortWaitSend();
      buffer->abortWaitRecv();
    }
  }
  // Gloo signals an error to some waiters only. Close the rest: no pointer into our memory remains.
  complaint_of([&] { context_->closeConnections(); });
}

GlooWire::Message::Message(GlooWire& wire, Way way, int peer, std::uint64_t slot,
                           const void* memory, std::size_t bytes)
    : wire_(wire), way_(way), peer_(peer) {
  buffer_ = wire.context_->createUnboundBuffer(const_cast<void*>(memory), bytes);
  {
    const std::lock_guard lock(wire.mutex_);
    wire.under_way_.push_back(buffer_.get());
  }
  try {
    wire.peers_.check();  // now, or cut() could miss it
    const std::string complaint = complaint_of([&] {
      way == Way::send ? buffer_->send(peer, slot, 0, bytes) : buffer_->recv(peer, slot, 0, bytes);
    });
    if (!complaint.empty()) wire.peers_.fail(peer, false, complaint);
  } catch (...) {
    forget();
    throw;
  }
}

GlooWire::Message::~Message() { forget(); }

void GlooWire::Message::forget() {
  const std::lock_guard lock(wire_.mutex_);
  std::erase(wire_.under_way_, buffer_.get());
}

void GlooWire::Message::wait() {
  const milliseconds timeout = wire_.peers_.run()->timeout;
  const auto start = steady_clock::now();
  bool done = false;
  const std::string complaint = complaint_of([&] {
    done = way_ == Way::send ? buffer_->waitSend(nullptr, timeout)
                             : buffer_->waitRecv(nullptr, timeout);
  });
  if (!done) wire_.peers_.fail(peer_, steady_clock::now() - start >= timeout, complaint);
}

}  // namespace nanofsdp::comm
