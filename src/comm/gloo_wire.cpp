#include "comm/gloo_wire.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/common/logging.h>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <utility>

namespace nanofsdp::comm {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Gloo's texts begin with the place in its source; only what follows helps.
std::string without_place(const std::string& text) {
  const auto end = text.find("] ");
  return text.rfind('[', 0) == 0 && end != std::string::npos ? text.substr(end + 2) : text;
}

}  // namespace

GlooWire::GlooWire(std::shared_ptr<gloo::Context> context, std::chrono::milliseconds timeout)
    : context_(std::move(context)),
      timeout_(std::clamp<std::chrono::milliseconds>(timeout, 1ms, 24h)) {}

// The connections close when the context goes, and what has been sent still arrives: a rank may
// leave while its peers are reading. (closeConnections() would cut them off.)
GlooWire::~GlooWire() = default;

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
  try {
    context_->closeConnections();
  } catch (...) {  // they are closed
  }
}

std::string GlooWire::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

void GlooWire::fail(int peer, bool timed_out, const std::string& gloo_says) {
  const std::string reason = aborted();
  if (!reason.empty()) throw WireError{CommError::Kind::aborted, "gave up: " + reason};
  // Gloo signals an error to some waiters only. Close the rest: no pointer into our memory remains.
  abort(fmt::format("the connection to rank {} failed", peer));
  if (timed_out) {
    throw WireError{CommError::Kind::timeout,
                    fmt::format("waited {} ms in vain for rank {}", timeout_.count(), peer)};
  }
  throw WireError{CommError::Kind::peer_lost,
                  fmt::format("lost rank {} ({})", peer, without_place(gloo_says))};
}

GlooWire::Message::Message(GlooWire& wire, Way way, int peer, std::uint64_t slot,
                           const void* memory, std::size_t bytes)
    : wire_(wire), way_(way), peer_(peer) {
  buffer_ = wire.context_->createUnboundBuffer(const_cast<void*>(memory), bytes);
  std::string what;
  {
    const std::lock_guard lock(wire.mutex_);
    what = wire.aborted_;
    if (what.empty()) wire.under_way_.push_back(buffer_.get());
  }
  if (!what.empty()) throw WireError{CommError::Kind::aborted, "gave up: " + what};
  try {
    if (way == Way::send) {
      buffer_->send(peer, slot, 0, bytes);
    } else {
      buffer_->recv(peer, slot, 0, bytes);
    }
    return;
  } catch (const gloo::Exception& e) {
    what = e.what();
  } catch (const gloo::EnforceNotMet& e) {  // which is no gloo::Exception
    what = e.what();
  }
  wire_.fail(peer, false, what);
}

GlooWire::Message::~Message() {
  const std::lock_guard lock(wire_.mutex_);
  std::erase(wire_.under_way_, buffer_.get());
}

void GlooWire::Message::wait() {
  const auto start = Clock::now();
  std::string what = "aborted";
  try {
    const bool done = way_ == Way::send ? buffer_->waitSend(nullptr, wire_.timeout_)
                                        : buffer_->waitRecv(nullptr, wire_.timeout_);
    if (done) return;
  } catch (const gloo::Exception& e) {
    what = e.what();
  } catch (const gloo::EnforceNotMet& e) {
    what = e.what();
  }
  wire_.fail(peer_, Clock::now() - start >= wire_.timeout_, what);
}

}  // namespace nanofsdp::comm
