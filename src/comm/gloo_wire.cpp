#include "comm/gloo_wire.h"

#include <gloo/common/error.h>
#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/unbound_buffer.h>
#if GLOO_HAVE_TRANSPORT_TCP
#include <gloo/transport/tcp/device.h>
namespace connections = gloo::transport::tcp;
#else  // not on Linux: over libuv
#include <gloo/transport/uv/device.h>
namespace connections = gloo::transport::uv;
#endif

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include <sys/socket.h>

#include "base/patience.h"
#include "base/platform.h"
#include "launch/socket.h"

namespace nanofsdp::comm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Runs `f`. What Gloo has to say if it fails, without the place in its source; empty if it does
// not.
template <class F>
std::string complaint_of(const F& f) try {
  f();
  return "";
} catch (const CommError&) {  // ours
  throw;
} catch (const std::exception& e) {  // gloo::EnforceNotMet is no gloo::Exception
  const std::string text = e.what();
  const auto end = text.find("] ");
  return text.substr(end == std::string::npos ? 0 : end + 2);
}

// Gloo's view of the store: the corner that belongs to one group.
class Corner final : public gloo::rendezvous::Store, public std::enable_shared_from_this<Corner> {
 public:
  Corner(ProcessRun& run, std::string name) : run_(run), name_(std::move(name)) {}

  // Before April 2025 Gloo asked for a Store&, since then it asks for this pointer. None of its
  // macros says which it is, but the compiler knows: a Corner& converts to either.
  operator std::shared_ptr<gloo::rendezvous::Store>() { return shared_from_this(); }

  void set(const std::string& key, const std::vector<char>& value) override {
    run_.store.set(name_ + "/" + key, {value.begin(), value.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = run_.hear(name_ + "/" + key, "the address " + key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  // Gloo's own time for this is fixed at 30 seconds.
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  ProcessRun& run_;
  const std::string name_;
};

// One IO thread for the groups of this process.
void open_device(ProcessRun& run) {
  // Gloo writes to sockets whose other end may have died; that is an error, not an end.
  std::signal(SIGPIPE, SIG_IGN);
  // By default Gloo binds to the address of the host's name, which may be anything; and an
  // interface may have several addresses.
  connections::attr attributes;
  attributes.iface = run.store.interface();
  attributes.hostname = run.store.interface().empty() ? run.store.address() : "";
  attributes.ai_family = AF_INET;
  run_with_background_threads([&] { run.device = connections::CreateDevice(attributes); });
}

// Connects the ranks that meet under `name`.
std::shared_ptr<gloo::Context> connect(ProcessRun& run, const std::string& name,
                                       const Circle& circle) {
  auto context = std::make_shared<gloo::rendezvous::Context>(
      circle.rank, static_cast<int>(circle.members.size()));
  launch::require_descriptors(circle.members.size(), "connections of a group");
  const std::string complaint = complaint_of([&] {
    if (!run.device) open_device(run);
    // Gloo waits five times this for a peer to connect, whoever is lost meanwhile; and all are
    // there. Messages have a time of their own.
    context->setTimeout(std::min<milliseconds>(run.timeout, 4s));
    auto corner = std::make_shared<Corner>(run, name);
    // A rank that Gloo waits for has no name: see first that all have come; and a rank that is soon
    // done must not leave while another is still connecting.
    run.gather(name + "/here", "", circle.members);
    context->connectFullMesh(*corner, run.device);
    // Longer than a rank may take to connect: it knows better who it was that did not.
    run.gather(name + "/connected", "", circle.members, /*patience=*/2);
  });
  if (!complaint.empty()) throw run.setup_error(complaint);
  return context;
}

}  // namespace

GlooWire::GlooWire(std::shared_ptr<ProcessRun> run, const std::string& name, const Circle& circle)
    : context_(connect(*run, name, circle)),
      peers_(std::move(run), circle, [this](const std::string&) { cut(); }),
      waking_(std::async(std::launch::async, [this] { wake_often(); })) {}

// Who waits looks how long it has waited, and whether the group has failed. A timeout of Gloo's own
// would end all connections, also where this rank only has to be patient.
void GlooWire::wake_often() {
  const std::future<void> end = end_.get_future();
  while (end.wait_for(Patience::kLook) == std::future_status::timeout) {
    const std::lock_guard lock(mutex_);
    for (gloo::transport::UnboundBuffer* buffer : under_way_) {
      buffer->abortWaitSend();
      buffer->abortWaitRecv();
    }
  }
}

// Gloo signals an error to some waiters only. Close the rest: no pointer into our memory remains.
void GlooWire::cut() noexcept {
  complaint_of([&] { context_->closeConnections(); });
}

GlooWire::Message::Message(GlooWire& wire, Way way, int peer, std::uint64_t slot,
                           const void* memory, std::size_t bytes)
    : wire_(wire),
      way_(way),
      peer_(peer),
      buffer_(wire.context_->createUnboundBuffer(const_cast<void*>(memory), bytes)) {
  std::string complaint;
  {
    const std::lock_guard lock(wire.mutex_);  // cut() comes before it or after it
    wire.peers_.check();
    complaint = complaint_of([&] {
      way == Way::send ? buffer_->send(peer, slot, 0, bytes) : buffer_->recv(peer, slot, 0, bytes);
    });
    if (complaint.empty()) wire.under_way_.push_back(buffer_.get());
  }
  if (!complaint.empty()) throw wire.peers_.failure({peer}, /*timed_out=*/false, complaint);
}

GlooWire::Message::~Message() {
  const std::lock_guard lock(wire_.mutex_);
  std::erase(wire_.under_way_, buffer_.get());
}

void GlooWire::Message::wait() {
  Peers& peers = wire_.peers_;
  Patience patience(peers.run()->timeout);
  for (bool done = false; !done;) {
    const std::string complaint = complaint_of([&] {
      done = way_ == Way::send ? buffer_->waitSend(nullptr, 24h) : buffer_->waitRecv(nullptr, 24h);
    });
    if (!done) peers.check();
    if (!complaint.empty()) throw peers.failure({peer_}, /*timed_out=*/false, complaint);
    if (done || !patience.is_over()) continue;
    patience = peers.run()->rest();
    if (patience.is_over()) throw peers.failure({peer_}, /*timed_out=*/true, "");
  }
}

}  // namespace nanofsdp::comm
