#include "launch/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "launch/store_server.h"

namespace nanofsdp::launch {
namespace {

using Kind = Frame::Kind;
using std::chrono::milliseconds;
using namespace std::chrono_literals;

bool is_loopback(const std::string& address) { return address.starts_with("127."); }

// The other ranks would look for rank 0 on their own machines. If the user has not said where they
// are, 127.0.0.1 and localhost mean that all ranks are on this machine. A machine may know its own
// name as 127.0.1.1, which other machines do not.
void check_reachable(const Rendezvous& r, const std::string& address) {
  const bool said = is_loopback(r.host) || r.host.starts_with("localhost");
  const bool all_here = r.local_size > 0 ? r.local_size >= r.size : said;
  NANOFSDP_REFUSE_IF(
      is_loopback(address) && !all_here, .what = "MASTER_ADDR",
      .expected = "an address that other machines reach",
      .got = fmt::format("{}, which is {} here", r.host, address),
      .hint = "give that of a network interface, or 127.0.0.1 if all ranks are here");
}

}  // namespace

Store::Store(Rendezvous where) : rendezvous_(where) {
  Socket listener(where.listener);  // a forked rank has a copy, even if it does not need it
  if (size() == 1) return;
  if (rank() == 0) {
    require_descriptors(static_cast<std::size_t>(size()), "connections of rank 0");
    if (!listener.is_open()) listener = listen_on(where.host, where.port, where.patience);
    where.port = listener.local_port();
    server_ = std::make_unique<StoreServer>(std::move(listener), rendezvous_);
  }
  const std::string place = fmt::format("{}:{}", where.host, where.port);
  socket_ = connect_to(where.host, where.port, where.patience);
  if (!socket_.is_open())
    throw RankError(fmt::format("rank {} found nobody at {} in {} s: does rank 0 run there?",
                                rank(), place, where.patience / 1s));
  address_ = socket_.local_address();
  check_reachable(rendezvous_, address_);
  const Member member{.program = rendezvous_.program, .rank = rank(), .size = size()};
  say({.kind = Kind::hello,
       .key = rendezvous_.token,
       .value = {reinterpret_cast<const char*>(&member), sizeof member}});
  listening_ = std::async(std::launch::async, [this] { listen(); });
  if (wait(where.patience, [&] { return values_.contains(kWelcome); })) return;
  const std::string why = loss(0ms);
  socket_.shut_down();
  throw RankError(fmt::format("rank {} was not let in by rank 0 at {}: {}", rank(), place,
                              why.empty() ? "no answer" : why),
                  /*follows=*/why.ends_with(" closed"));  // rank 0 has ended
}

Store::~Store() { socket_.shut_down(); }

void Store::listen() noexcept try {
  std::string buffer;
  while (socket_.receive(buffer))
    while (const auto frame = take_frame(buffer)) handle(*frame);
  lost(fmt::format("rank 0 was lost: its connection to rank {} closed", rank()));
} catch (const std::exception& e) {
  lost(fmt::format("rank 0 was lost: its connection to rank {}: {}", rank(), words_of(e)));
}

void Store::say(const Frame& frame) {
  const std::lock_guard lock(saying_);
  socket_.send(encode(frame));  // if this fails, the thread sees the end of the connection
}

void Store::handle(const Frame& frame) {
  if (frame.kind == Kind::lost) return lost(frame.value);
  const std::lock_guard lock(mutex_);
  if (frame.kind == Kind::ping)
    return say({Kind::pong, std::to_string(work_.idle().count()), works_at_});
  if (frame.kind == Kind::value) values_[frame.key] = frame.value;
  if (frame.kind == Kind::pong) idle_ = milliseconds(std::stoll(frame.key));
  news_.notify_all();
}

void Store::lost(const std::string& what) {
  std::unique_lock lock(mutex_);
  if (values_.contains(kLeft) || !loss_.empty()) return;
  loss_ = what;
  news_.notify_all();
  lock.unlock();
  const std::lock_guard telling(telling_);
  if (told_) std::exchange(told_, nullptr)(what);
}

bool Store::wait(milliseconds timeout, const std::function<bool()>& condition) {
  std::unique_lock lock(mutex_);
  const auto ends = [&] { return condition() || !loss_.empty(); };
  Patience patience(timeout);
  const auto look = std::min(timeout, Patience::kLook);
  while (!ends() && !patience.is_over()) news_.wait_for(lock, look, ends);
  return condition();
}

void Store::set(const std::string& key, const std::string& value) {
  if (size() > 1) return say({Kind::set, key, value});
  const std::lock_guard lock(mutex_);
  values_[key] = value;
}

std::optional<std::string> Store::get(const std::string& key, milliseconds timeout) {
  say({Kind::get, key});
  if (wait(timeout, [&] { return values_.contains(key); })) {
    const std::lock_guard lock(mutex_);
    return values_[key];
  }
  const std::string what = loss(0ms);
  if (!what.empty()) throw RankError(what, true);
  return std::nullopt;
}

void Store::on_loss(std::function<void(const std::string&)> told) {
  const std::lock_guard lock(telling_);
  const std::string what = loss(0ms);
  if (told && !what.empty()) return told(what);
  told_ = std::move(told);
}

std::string Store::loss(milliseconds timeout) {
  wait(timeout, [] { return false; });
  const std::lock_guard lock(mutex_);
  return loss_;
}

std::string Store::roll_call() {
  idle();
  return loss(0ms);
}

milliseconds Store::idle() {
  milliseconds idle = 2 * Patience::kLongest;
  if (size() == 1) return idle;
  std::unique_lock lock(mutex_);  // another thread may be taking the answer to its own roll call
  idle_ = -1ms;
  lock.unlock();
  say({.kind = Kind::roll_call});
  if (!wait(3s, [&] { return (idle = idle_) >= 0ms; })) lost("rank 0 was lost: it does not answer");
  return loss(0ms).empty() ? idle : 2 * Patience::kLongest;
}

void Store::work(int begins, const std::string& at) {
  const std::lock_guard lock(mutex_);
  if (work_.add(begins) == 0 || works_at_.empty()) works_at_ = at;
}

void Store::fail(const std::string& why) noexcept try {
  if (size() == 1) return;
  say({.kind = Kind::failed, .value = why.substr(0, std::min<std::size_t>(why.find('\n'), 3000))});
  loss(2s);                        // our own message comes back when the others have it too
} catch (const std::exception&) {  // they learn of it when the connection closes
}

void Store::leave(milliseconds timeout) {
  if (size() == 1) return;
  say({.kind = Kind::leave});
  const auto round = std::min<milliseconds>(timeout, 5s);
  for (milliseconds rest = timeout; !wait(round, [&] { return values_.contains(kLeft); });
       rest -= round) {
    rest = std::max(rest, timeout + round - idle());
    const std::string what = loss(0ms);
    if (!what.empty()) throw RankError(what, true);
    if (rest > round) continue;
    throw RankError(
        fmt::format("rank {} waited {} s for all ranks to leave", rank(), timeout / 1s));
  }
}

}  // namespace nanofsdp::launch
