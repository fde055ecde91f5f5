#include "plan/clock.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>

namespace nanofsdp::plan {
namespace {

using Kind = Issued::Kind;

constexpr double kNever = std::numeric_limits<double>::infinity();

bool on_cpu(const Machine& machine) { return machine.kind == Machine::Kind::cpu; }

// Ranks that share a machine's cores, memory and network.
double sharers(const Machine& machine, const Setup& setup) {
  return on_cpu(machine) ? std::min<double>(setup.ranks, machine.node_ranks) : 1;
}

// Plays one log. Streams are played only as far as somebody must know: to the point for which the
// host waits, or to the end. Until then their time, now_, may be behind the host's.
class Player {
 public:
  Player(const IssueLog& log, const Machine& machine, const Setup& setup)
      : log_(log), machine_(machine), setup_(setup), lanes_(kStreams), ends_(lanes_.size()) {}

  // Plays on to entry `end` of the log, and until nothing is under way.
  Played play(std::size_t end) {
    const double began = host_;
    played_ = {.busy = std::vector<double>(lanes_.size()),
               .exposed = std::vector<double>(lanes_.size()),
               .total = {.launches = 0}};
    while (issued_ < end) issue(log_.all()[issued_]);
    for (std::size_t s = 0; s < lanes_.size(); ++s) block(s, issued_);
    played_.exposed[0] += host_ - now_;
    now_ = host_;
    played_.seconds = host_ - began;
    return played_;
  }

 private:
  struct Entry {
    const Issued* what;
    std::size_t number;
    double issued;
  };

  // What is shared by all that is done on it at the same time.
  enum Resource : std::size_t { node, network, gpu, thread };  // a CPU's streams: a thread each

  struct Lane {
    std::deque<Entry> queue{};  // the first may be under way
    bool running = false;
    bool collective = false;
    double latency = 0;  // seconds that are left of it, then ...
    double left = 0;     // ... of its share of the resource, if it had it alone
    Resource resource = gpu;
  };

  void issue(const Issued& i) {
    ++issued_;
    const auto stream = static_cast<std::size_t>(i.stream);
    if (i.kind == Kind::block) return block(static_cast<std::size_t>(i.awaited), i.point);
    const bool is_inline = stream == 0 && on_cpu(machine_);
    if (i.kind == Kind::work && !is_inline) host_ += i.cost.launches * machine_.launch_time;
    lanes_[stream].queue.push_back({&i, issued_, host_});
    if (is_inline) block(stream, issued_);
  }

  bool passed(std::size_t stream, std::size_t point) const {
    const auto& queue = lanes_[stream].queue;
    return queue.empty() || queue.front().number > point;
  }

  // The host waits. Waits point back in the log, so something is always under way.
  void block(std::size_t stream, std::size_t point) {
    for (settle(); !passed(stream, point); settle()) elapse(stream);
    host_ = std::max(host_, now_);
  }

  // Streams go on to what takes time, or has to wait.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Lane& lane : lanes_) {
        while (!lane.running && !lane.queue.empty() && go_on(lane)) moved = true;
      }
    }
  }

  // Begins the first entry of the queue, or passes it. @returns whether it could
  bool go_on(Lane& lane) {
    const auto [what, number, issued] = lane.queue.front();
    if (issued > now_ || waits(lane)) return false;
    if (what->kind == Kind::work) {
      begin(lane, what->cost);
    } else {
      if (what->kind == Kind::note) *what->when = now_;
      lane.queue.pop_front();
    }
    return true;
  }

  bool waits(const Lane& lane) const {
    const Issued& i = *lane.queue.front().what;
    return i.kind == Kind::wait && !passed(static_cast<std::size_t>(i.awaited), i.point);
  }

  void begin(Lane& lane, const Cost& cost) {
    lane.running = true;
    lane.collective = cost.message.ranks > 1;
    lane.resource = on_cpu(machine_) ? thread : gpu;
    lane.latency = 0;
    lane.left = work_seconds(machine_, setup_, cost);
    if (lane.collective) {
      const Transfer t = transfer(machine_, setup_, cost.message);
      lane.resource = t.leaves_node ? network : node;
      lane.latency = lane.left + t.latency;
      lane.left = t.seconds;
    }
    Cost& total = played_.total;
    total.products += cost.products;
    total.attention += cost.attention;
    total.flops += cost.flops;
    total.read += cost.read;
    total.written += cost.written;
    total.launches += cost.launches;
    total.message.bytes += cost.message.bytes;
  }

  // Time goes on to the next moment at which anything begins or ends.
  void elapse(std::size_t host_waits_for) {
    share();
    double next = host_ > now_ ? host_ : kNever;
    for (std::size_t s = 0; s < lanes_.size(); ++s)
      next = std::min(next, ends_[s] = end(lanes_[s]));
    const double dt = next - now_;
    if (!lanes_[0].running) played_.exposed[awaited(host_waits_for)] += dt;
    for (std::size_t s = 0; s < lanes_.size(); ++s) {
      if (!lanes_[s].running) continue;
      played_.busy[s] += dt;
      proceed(lanes_[s], ends_[s] == next, dt);
    }
    now_ = next;
  }

  // Counts who shares what from now on.
  void share() {
    users_ = {};
    collective_ = false;
    for (const Lane& lane : lanes_) {
      if (lane.running && lane.latency == 0) ++users_[lane.resource];
      collective_ = collective_ || (lane.running && lane.collective);
    }
  }

  // How many times as long as alone.
  double slowness(const Lane& lane) const {
    const double users = lane.resource == thread ? 1 : users_[lane.resource];
    return collective_ && !lane.collective ? users * machine_.overlap_slowdown : users;
  }

  // When what the stream does ends, or the host gives it more.
  double end(const Lane& lane) const {
    if (lane.running) {
      return now_ + (lane.latency > 0 ? lane.latency : lane.left * slowness(lane));
    }
    const bool idle = lane.queue.empty() || lane.queue.front().issued <= now_;
    return idle ? kNever : lane.queue.front().issued;
  }

  void proceed(Lane& lane, bool ends, double dt) {
    if (lane.latency > 0) {
      lane.latency = ends ? 0 : std::max(0.0, lane.latency - dt);
    } else {
      lane.left = ends ? 0 : std::max(0.0, lane.left - dt / slowness(lane));
    }
    if (lane.latency > 0 || lane.left > 0) return;
    lane.running = false;
    lane.queue.pop_front();
  }

  // The stream for which stream 0 stands and waits; 0: for the host.
  std::size_t awaited(std::size_t host_waits_for) const {
    const auto& queue = lanes_[0].queue;
    if (queue.empty()) return now_ >= host_ ? host_waits_for : 0;
    const bool waits = queue.front().issued <= now_;
    return waits ? static_cast<std::size_t>(queue.front().what->awaited) : 0;
  }

  const IssueLog& log_;
  const Machine& machine_;
  const Setup setup_;
  std::size_t issued_ = 0;  // entries of the log so far
  double host_ = 0, now_ = 0;
  std::vector<Lane> lanes_;  // by stream
  std::vector<double> ends_;
  std::array<int, thread + 1> users_{};
  bool collective_ = false;  // one is under way
  Played played_;
};

}  // namespace

double work_seconds(const Machine& machine, const Setup& setup, const Cost& cost) {
  const double ranks = sharers(machine, setup);
  const double cores = on_cpu(machine) ? std::min<double>(setup.threads, machine.cores / ranks) : 1;
  const double peak = cost.bfloat16 ? machine.products_bfloat16 : machine.products_float32;
  const double thin = cost.products > 0 ? 1 + machine.product_half_width / cost.narrowest : 1;
  const double arithmetic = thin * cost.products / (peak * machine.product_efficiency) +
                            cost.attention / machine.attention + cost.flops / machine.flops;
  const double bandwidth = machine.memory_bandwidth * machine.memory_efficiency / ranks;
  return std::max(arithmetic / cores, (cost.read + cost.written) / bandwidth) +
         cost.launches * machine.kernel_time;
}

Transfer transfer(const Machine& machine, const Setup& setup, const Message& message) {
  const double n = message.ranks;
  const double k = std::clamp(std::floor(machine.node_ranks / message.stride), 1.0, n);
  const double m = std::ceil(n / k);
  const double ranks = sharers(machine, setup);
  double bandwidth = machine.node_bandwidth / ranks;
  double latency = machine.node_latency;
  if (m > 1) {
    const double cards = on_cpu(machine) ? 1 / ranks : k;
    const double out = cards * machine.network_bandwidth / machine.network_oversubscription;
    bandwidth = k > 1 ? std::min(bandwidth, out) : out;
    latency = machine.network_latency;
  }
  if (!on_cpu(machine)) {
    latency = (n - m) * machine.node_latency + (m - 1) * machine.network_latency;
  }
  return {latency, message.bytes / (bandwidth * machine.network_efficiency), m > 1};
}

Played play(const IssueLog& log, const Machine& machine, const Setup& setup, std::size_t warm_up) {
  Player player(log, machine, setup);
  player.play(warm_up);
  return player.play(log.size());
}

}  // namespace nanofsdp::plan
