#include "launch/store_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <poll.h>

#include "base/check.h"

namespace nanofsdp::launch {

using Kind = Frame::Kind;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kLinger = 2s;
constexpr int kStrangers = 4;  // connections more than ranks; require_descriptors() leaves 8

namespace {

void require(bool fits, const std::string& objection) {
  if (!fits) throw std::runtime_error(objection);
}

// Writes a line to stderr, unless that would stop this thread or end the process: Ctrl-S stops
// stderr together with stdout, and a program that reads it may have ended. The run must go on then.
// Returns whether the line was written.
bool tell_people(const std::string& text) {
  pollfd errors{.fd = fileno(stderr), .events = POLLOUT};
  poll(&errors, 1, /*milliseconds=*/0);
  return errors.revents == POLLOUT && std::fprintf(stderr, "nanofsdp: %s\n", text.c_str()) > 0;
}

}  // namespace

StoreServer::StoreServer(Socket listener, const Rendezvous& rendezvous)
    : listener_(std::move(listener)), rendezvous_(rendezvous), thread_([this] { serve(); }) {}

StoreServer::~StoreServer() {
  stop_at_ = Clock::now() + kLinger;
  stopping_ = true;
  if (missing_ == 0) listener_.shut_down();  // wakes poll(), at least on Linux
  thread_.join();
}

void StoreServer::serve() try {
  // After a loss, ranks that were started together with rank 0 may still come. They must learn of
  // the loss too.
  while (!stopping_ || (loss_.kind == Kind::lost && missing_ > 0 && Clock::now() < stop_at_)) {
    // If no descriptor was left for the newest connection, this round accepts no other one. When
    // all ranks have left, no process is let in any more, and the destructor soon ends this loop.
    const bool over = left_ == rendezvous_.size;
    const bool full = over || (!connections_.empty() && !connections_.back().socket.is_open());
    std::vector<pollfd> watched{{.fd = full ? -1 : listener_.descriptor(), .events = POLLIN}};
    for (const Connection& c : connections_)
      watched.push_back({.fd = c.socket.descriptor(), .events = POLLIN});
    poll(watched.data(), watched.size(), /*milliseconds=*/over ? 1 : 100);
    for (std::size_t i = 1; i < watched.size(); ++i)
      if (watched[i].revents != 0) receive(connections_[i - 1]);
    std::erase_if(connections_, [](const Connection& c) { return !c.socket.is_open(); });
    if (watched[0].revents == POLLIN) connections_.push_back({.socket = accept_on(listener_)});
    // The oldest connection without a hello makes room.
    if (std::ssize(connections_) > rendezvous_.size + kStrangers)
      connections_.erase(std::ranges::find(connections_, -1, &Connection::rank));
    end_roll_call();
  }
} catch (const std::bad_alloc&) {  // without memory this thread cannot serve, so the run is over
  lose(0, "failed: memory ran out");
}

void StoreServer::receive(Connection& connection) {
  if (!connection.socket.receive(connection.buffer)) {
    connection.socket = {};
    if (left_ < rendezvous_.size) lose(connection.rank, "was lost: its connection closed");
    return;
  }
  try {
    while (const auto frame = take_frame(connection.buffer)) handle(connection, *frame);
  } catch (const std::exception& e) {  // the other end does not fit
    const std::string why = words_of(e);
    tell_people(fmt::format("refused {}: {}", connection.socket.peer(), why));
    connection.socket.send(encode({.kind = Kind::lost, .value = why}));
    connection.socket = {};
    lose(connection.rank, "was refused: " + why);
  }
}

void StoreServer::handle(Connection& connection, const Frame& frame) {
  if (connection.rank < 0) return greet(connection, frame);
  if (frame.kind == Kind::set) return set(connection, frame);
  if (frame.kind == Kind::failed) return lose(connection.rank, "failed: " + frame.value);
  if (frame.kind == Kind::roll_call) return begin_roll_call();
  if (frame.kind == Kind::get) {
    if (!values_.contains(frame.key)) return connection.asked.push_back(frame.key);
    connection.socket.send(encode({Kind::value, frame.key, values_[frame.key]}));
  } else if (frame.kind == Kind::pong) {
    connection.answered = true;
    idle_ = std::min(idle_, std::chrono::milliseconds(std::stoll(frame.key)));
    if (!frame.value.empty()) work_ = fmt::format("rank {} {}", connection.rank, frame.value);
  } else {
    require(frame.kind == Kind::leave, "not a rank's to say");
    if (++left_ < rendezvous_.size) return;
    listener_.shut_down();  // a rank that leaves may begin its next run, which must not come here
    if (loss_.kind != Kind::lost) tell_all({Kind::value, kLeft});
  }
}

void StoreServer::greet(Connection& connection, const Frame& hello) {
  // If the process cannot be one of this run's ranks, it is a stranger, and the run goes on.
  Member member;
  require(hello.kind == Kind::hello && hello.value.size() == sizeof member, "not a rank's hello");
  require(hello.key == rendezvous_.token, "not this run's token (NANOFSDP_TOKEN)");
  std::memcpy(&member, hello.value.data(), sizeof member);
  require(member.rank >= 0 && member.rank < rendezvous_.size,
          fmt::format("there is no rank {} of {}", member.rank, rendezvous_.size));
  for (const Connection& c : connections_)
    require(c.rank != member.rank,
            fmt::format("rank {} is taken, by {}", member.rank, c.socket.peer()));
  // It is a rank that the run waits for. If it does not fit now, the run is over.
  connection.rank = member.rank;
  --missing_;
  require(member.size == rendezvous_.size,
          fmt::format("it expects {} ranks, rank 0 expects {}", member.size, rendezvous_.size));
  require(member.program == rendezvous_.program,
          fmt::format("rank {} runs another program than rank 0 ({:016x}, not {:016x})",
                      member.rank, member.program, rendezvous_.program));
  connection.socket.send(encode({Kind::value, kWelcome}));
  if (loss_.kind == Kind::lost) connection.socket.send(encode(loss_));
}

void StoreServer::set(Connection& connection, const Frame& frame) {
  if (!values_.emplace(frame.key, frame.value).second)
    return lose(connection.rank, fmt::format("failed: '{}' was set before", frame.key));
  for (Connection& c : connections_)
    if (std::erase(c.asked, frame.key) > 0)
      c.socket.send(encode({Kind::value, frame.key, frame.value}));
}

void StoreServer::begin_roll_call() {
  if (roll_call_) return;
  roll_call_.emplace(1s);  // enough for any process that runs, even if it is busy
  idle_ = std::chrono::milliseconds::max();
  work_.clear();
  for (Connection& c : connections_) c.answered = c.rank < 0;
  tell_all({.kind = Kind::ping});
}

void StoreServer::end_roll_call() {
  const auto silent = std::ranges::find(connections_, false, &Connection::answered);
  const bool all = silent == connections_.end();
  if (!roll_call_ || !(all || roll_call_->is_over())) return;
  roll_call_.reset();
  if (!all) return lose(silent->rank, "was lost: it does not answer");
  const bool is_news = work_ != told_;
  if (is_news && (work_.empty() || tell_people(work_ + "; the others wait for it"))) told_ = work_;
  tell_all({.kind = Kind::pong, .key = std::to_string(idle_.count())});
}

void StoreServer::lose(int rank, const std::string& how) {
  // A stranger is no rank of the run, and later losses are consequences.
  if (rank < 0 || loss_.kind == Kind::lost) return;
  const std::chrono::duration<double> after = Clock::now() - start_;
  loss_ = {.kind = Kind::lost,
           .value = fmt::format("rank {} {} ({:.1f} s after the start)", rank, how, after.count())};
  tell_all(loss_);
}

void StoreServer::tell_all(const Frame& frame) {
  for (const Connection& c : connections_)
    if (c.socket.is_open() && c.rank >= 0) c.socket.send(encode(frame));
}

}  // namespace nanofsdp::launch
