#include "comm/gloo_wire.h"

#include <gloo/common/error.h>
#include <gloo/config.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/unbound_buffer.h>
#if GLOO_HAVE_TRANSPORT_TCP
#include <gloo/transport/tcp/device.h>
namespace connections = gloo::transport::tcp;
#else  // outside Linux, Gloo uses libuv
#include <gloo/transport/uv/device.h>
namespace connections = gloo::transport::uv;
#endif

#include <algorithm>
#include <csignal>
#include <exception>
#include <utility>

#include <sys/socket.h>

#include "base/check.h"
#include "base/patience.h"
#include "base/platform.h"
#include "launch/socket.h"

namespace nanofsdp::comm {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Runs `f`. Returns Gloo's error text if it fails, without the place in Gloo's source; empty if it
// succeeds.
std::string complaint_of(const auto& f) try {
  f();
  return "";
} catch (const CommError&) {  // our own error
  throw;
} catch (const std::exception& e) {  // gloo::EnforceNotMet is not a gloo::Exception
  const std::string text = words_of(e);
  const auto end = text.find("] ");
  return text.substr(end == std::string::npos ? 0 : end + 2);
}

// The store in the form that Gloo needs, with the keys of one group only.
class Keys final : public gloo::rendezvous::Store, public std::enable_shared_from_this<Keys> {
 public:
  Keys(ProcessState& run, std::string name) : run_(run), name_(std::move(name)) {}

  // Before April 2025 Gloo took a Store&, since then it takes this pointer. No macro of Gloo says
  // which it is, but the compiler knows: a Keys& converts to both.
  operator std::shared_ptr<gloo::rendezvous::Store>() { return shared_from_this(); }

  void set(const std::string& key, const std::vector<char>& value) override {
    run_.store.set(name_ + "/" + key, {value.begin(), value.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = run_.read(name_ + "/" + key, "the address " + key);
    return {value.begin(), value.end()};
  }
  // get() waits for its key. Gloo's own time for this would always be 30 seconds.
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&, const milliseconds&) override {}

 private:
  ProcessState& run_;
  const std::string name_;
};

// Opens the IO thread for all groups of this process.
void open_device(ProcessState& run) {
  // Gloo writes to sockets whose other end may have died. This must be an error, and not end the
  // process.
  std::signal(SIGPIPE, SIG_IGN);
  // By default Gloo binds to the address of the host's name, which may be wrong. Also, an interface
  // may have several addresses.
  connections::attr attributes;
  attributes.iface = run.store.interface();
  attributes.hostname = run.store.interface().empty() ? run.store.address() : "";
  attributes.ai_family = AF_INET;
  run_with_background_threads([&] { run.device = connections::CreateDevice(attributes); });
}

// Connects the ranks that meet under `name`.
std::shared_ptr<gloo::Context> connect(ProcessState& run, const std::string& name,
                                       const GroupSpec& spec) {
  auto context =
      std::make_shared<gloo::rendezvous::Context>(spec.rank, static_cast<int>(spec.members.size()));
  launch::require_descriptors(spec.members.size(), "connections of a group");
  const std::string complaint = complaint_of([&] {
    if (!run.device) open_device(run);
    // Gloo waits five times this time for a peer to connect, even if a rank was lost, and all ranks
    // have come by now. Messages have a timeout of their own.
    context->setTimeout(std::min<milliseconds>(run.timeout, 4s));
    auto keys = std::make_shared<Keys>(run, name);
    // Gloo's errors do not name the rank for which it waits. So this first checks that all ranks
    // have come. Also, a rank that is soon done must not leave while another one is still
    // connecting.
    run.gather(name + "/here", "", spec.members);
    auto device = std::static_pointer_cast<gloo::transport::Device>(run.device);
    context->connectFullMesh(*keys, device);
    // This takes longer than the time in which a rank may connect, so the rank that waits for the
    // missing one gives the error.
    run.gather(name + "/connected", "", spec.members, /*patience=*/2);
  });
  if (!complaint.empty()) throw run.setup_error(complaint);
  return context;
}

}  // namespace

GlooWire::GlooWire(std::shared_ptr<ProcessState> run, const std::string& name,
                   const GroupSpec& spec)
    : context_(connect(*run, name, spec)),
      peers_(std::move(run), spec,
             // Gloo signals an error only to some of the waiters. This closes the other
             // connections, so no pointer into our memory remains.
             [this](const auto&) { complaint_of([this] { context_->closeConnections(); }); }),
      waking_(std::async(std::launch::async, [this] { wake_often(); })) {}

// A waiting rank looks at the time and at the state of the group. Gloo's own timeout would end all
// connections, even if this rank only has to wait longer.
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

GlooWire::Message::Message(GlooWire& wire, Way way, int peer, std::uint64_t tag, const void* memory,
                           std::size_t bytes)
    : wire_(wire),
      way_(way),
      peer_(peer),
      buffer_(wire.context_->createUnboundBuffer(const_cast<void*>(memory), bytes)) {
  std::unique_lock lock(wire.mutex_);  // the connections are cut before or after this
  wire.peers_.check();
  const std::string complaint = complaint_of([&] {
    way == Way::send ? buffer_->send(peer, tag, 0, bytes) : buffer_->recv(peer, tag, 0, bytes);
  });
  if (complaint.empty()) wire.under_way_.push_back(buffer_.get());
  lock.unlock();
  if (!complaint.empty()) throw wire.peers_.failure({peer}, /*timed_out=*/false, complaint);
}

GlooWire::Message::~Message() {
  const std::lock_guard lock(wire_.mutex_);
  std::erase(wire_.under_way_, buffer_.get());
}

void GlooWire::Message::wait() {
  Peers& peers = wire_.peers_;
  Patience patience(peers.run->timeout);
  std::string complaint;
  const auto arrives = [&] {
    bool done = false;
    complaint = complaint_of([&] {
      done = way_ == Way::send ? buffer_->waitSend(nullptr, 24h) : buffer_->waitRecv(nullptr, 24h);
    });
    return done;
  };
  while (!arrives()) {
    peers.check();
    if (!complaint.empty()) throw peers.failure({peer_}, /*timed_out=*/false, complaint);
    if (!peers.run->ends(patience)) continue;
    // It may arrive while other ranks are asked. Only the second wait tells, for the first one has
    // been woken meanwhile.
    if (!arrives() && !arrives()) throw peers.failure({peer_}, /*timed_out=*/true, "");
    return;
  }
}

}  // namespace nanofsdp::comm
