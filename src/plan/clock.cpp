#include "plan/clock.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace nanofsdp::plan {
namespace {

using Kind = Issued::Kind;

constexpr double kNever = HUGE_VAL;

bool on_cpu(const Machine& machine) { return machine.kind == Machine::Kind::cpu; }

// The cores that each rank of a machine has.
double cores_of(const Machine& machine, const Setup& setup) {
  return machine.cores / machine.sharers(setup.ranks);
}

// Plays one log. It plays a stream only as far as its time is needed: to the point for which the
// host waits, or to the end. Until then the time of the streams, now_, may be earlier than the
// host's.
class Player {
 public:
  Player(const std::deque<Issued>& log, const Machine& machine, const Setup& setup)
      : log_(log), machine_(machine), setup_(setup) {}

  // Plays until entry `end` of the log is issued and all work is done.
  Played play(std::size_t end) {
    const double began = host_;
    played_ = {};
    while (issued_ < end) issue(log_[issued_]);
    for (std::size_t s = 0; s < kStreams; ++s) block(s, issued_);
    played_.exposed[0] += host_ - std::exchange(now_, host_);
    played_.seconds = host_ - began;
    return played_;
  }

 private:
  struct Entry {
    const Issued* what;
    std::size_t number;  // number in the log
    double issued;       // the host's time when it issued the entry
  };
  // Work that runs at the same time shares one of these. On a CPU all work shares the rank's cores.
  enum Resource { node, network, processor };
  struct Lane {
    std::deque<Entry> queue{};
    bool running = false;  // whether the first entry of the queue is running
    bool collective = false;
    double latency = 0;             // seconds of latency that are left, then ...
    double left = 0;                // ... seconds that are left if no other work shared ...
    Resource resource = processor;  // ... this resource
    double share = 1;               // part of the resource that the work can use
    bool moves() const { return running && collective; }
  };

  static std::size_t stream_awaited(const Issued& i) { return static_cast<std::size_t>(i.awaited); }

  void issue(const Issued& i) {
    ++issued_;
    const auto stream = static_cast<std::size_t>(i.stream);
    if (i.kind == Kind::block) return block(stream_awaited(i), i.point);
    const bool is_inline = stream == 0 && on_cpu(machine_);
    if (i.kind == Kind::work && !is_inline) host_ += i.cost.launches * machine_.launch_time;
    const Payload& sent = i.cost.payload;
    const bool across = stream == 2 && sent.stride > 1 && sent.ranks * sent.stride == setup_.ranks;
    lanes_[setup_.across > 0 && across ? kStreams : stream].queue.push_back({&i, issued_, host_});
    if (is_inline) block(stream, issued_);
  }

  // Whether it is the lane of sums across shard groups, which reach over the whole run. Such a sum
  // comes after all that its stream had before it. A wait for the stream is a wait for both lanes.
  bool is_across(const Lane& lane) const { return &lane == &lanes_[kStreams]; }

  bool passed(std::size_t stream, std::size_t point) const {
    const auto has = [&](const Lane& lane) {
      return lane.queue.empty() || lane.queue.front().number > point;
    };
    return has(lanes_[stream]) && (stream + 1 != kStreams || has(lanes_[kStreams]));
  }

  // The host waits. It can only wait for earlier entries of the log, so some work is always
  // running.
  void block(std::size_t stream, std::size_t point) {
    for (settle(); !passed(stream, point); settle()) elapse(stream);
    host_ = std::max(host_, now_);
  }

  // Each stream goes on until its first entry takes time or has to wait.
  void settle() {
    while (std::ranges::any_of(lanes_, [this](Lane& lane) { return go_on(lane); })) continue;
  }

  // Begins the first entry of the queue, or removes it if it takes no time. @returns whether it
  // could
  bool go_on(Lane& lane) {
    if (lane.running || lane.queue.empty()) return false;
    const auto [what, number, issued] = lane.queue.front();
    const bool waits = what->kind == Kind::wait && !passed(stream_awaited(*what), what->point);
    const bool follows = is_across(lane) && !passed(kStreams - 1, number - 1);
    if (issued > now_ || waits || follows) return false;
    if (what->kind == Kind::note) *what->when = now_;
    if (what->kind == Kind::work) begin(lane, what->cost);
    if (what->kind != Kind::work) lane.queue.pop_front();
    return true;
  }

  void begin(Lane& lane, const Cost& cost) {
    const double seconds = work_seconds(machine_, setup_, cost);
    lane = {std::move(lane.queue), true, cost.payload.ranks > 1, 0, seconds};
    if (on_cpu(machine_)) {
      const int threads = &lane == &lanes_[0] ? setup_.threads : 1;
      lane.share = std::min(1.0, threads / cores_of(machine_, setup_));
    }
    if (lane.collective) {
      Payload payload = cost.payload;
      if (is_across(lane)) payload.bytes *= setup_.across;
      const Transfer t = transfer(machine_, setup_, payload);
      lane.latency = seconds + t.latency;
      lane.left = t.seconds;
      if (!on_cpu(machine_)) lane.resource = t.leaves_node ? network : node;
    }
  }

  // Moves the time to the next moment at which any work begins or ends.
  void elapse(std::size_t host_waits_for) {
    users_ = {};
    for (const Lane& lane : lanes_)
      if (lane.running && lane.latency == 0) users_[lane.resource] += lane.share;
    moving_ = std::ranges::any_of(lanes_, &Lane::moves);
    double next = host_ > now_ ? host_ : kNever;
    for (const Lane& lane : lanes_) next = std::min(next, next_of(lane));
    const double dt = next - now_;
    if (!lanes_[0].running) played_.exposed[moving_ ? awaited(host_waits_for) : 0] += dt;
    if (moving_) played_.communication += dt;
    if (lanes_[0].moves()) played_.sums += dt;
    for (std::size_t s = 0; s < lanes_.size(); ++s) {
      if (lanes_[s].running && s < kStreams) played_.busy[s] += dt;
      if (lanes_[s].running) proceed(lanes_[s], dt, next);
    }
    now_ = next;
  }

  // By what factor the work takes longer than it would take alone.
  double slowness(const Lane& lane) const {
    const double users = std::max(1.0, users_[lane.resource]);
    return moving_ && !lane.moves() ? users * machine_.overlap_slowdown : users;
  }

  // The time at which the lane's latency or its work ends, or at which the host issues its next
  // entry.
  double next_of(const Lane& lane) const {
    if (lane.running) return now_ + (lane.latency > 0 ? lane.latency : lane.left * slowness(lane));
    const bool stands = lane.queue.empty() || lane.queue.front().issued <= now_;
    return stands ? kNever : lane.queue.front().issued;
  }

  void proceed(Lane& lane, double dt, double now) {
    double& part = lane.latency > 0 ? lane.latency : lane.left;
    const double done = lane.latency > 0 ? dt : dt / slowness(lane);
    // After rounding, the rest may be too short to change the time, so it counts as done.
    part = next_of(lane) == now ? 0 : std::max(0.0, part - done);
    lane.running = lane.latency > 0 || lane.left > 0;
    if (!lane.running) lane.queue.pop_front();
  }

  // The stream for which stream 0 waits; 0 if it waits for the host.
  std::size_t awaited(std::size_t host_waits_for) const {
    const auto& queue = lanes_[0].queue;
    if (queue.empty()) return now_ >= host_ ? host_waits_for : 0;
    return queue.front().issued <= now_ ? stream_awaited(*queue.front().what) : 0;
  }

  const std::deque<Issued>& log_;
  const Machine& machine_;
  const Setup setup_;
  std::size_t issued_ = 0;  // number of entries that the host has issued
  double host_ = 0, now_ = 0;
  std::array<Lane, kStreams + 1> lanes_;  // one for each stream, and one for sums across groups
  std::array<double, processor + 1> users_{};
  bool moving_ = false;  // whether a collective is running
  Played played_;
};

}  // namespace

double work_seconds(const Machine& machine, const Setup& setup, const Cost& cost) {
  const bool cpu = on_cpu(machine);
  const double cores = cpu ? std::min<double>(setup.threads, cores_of(machine, setup)) : 1;
  const double peak = cost.bfloat16 ? machine.products_bfloat16 : machine.products_float32;
  // The kernel's rate is one of bfloat16. In float32 it is at most the processor's.
  const double attention = std::min(machine.attention, cost.bfloat16 ? HUGE_VAL : peak);
  const double side = std::max(1.0, cost.narrowest);
  const double thin = 1 + machine.product_half_width / side;
  const double brief = 1 + machine.attention_half_length / side;
  const double products = thin * cost.products / (peak * machine.product_efficiency) / cores;
  const double other = (brief * cost.attention / attention + cost.flops / machine.flops) / cores;
  const double bytes = cost.read + (cpu ? cost.overwritten : cost.written);
  const double memory =
      bytes * machine.sharers(setup.ranks) / (machine.memory_bandwidth * machine.memory_efficiency);
  return (cpu ? products + std::max(other, memory) : std::max(products + other, memory)) +
         cost.launches * machine.kernel_time;
}

Transfer transfer(const Machine& machine, const Setup& setup, const Payload& payload) {
  const double n = payload.ranks;
  const double here = std::max(1.0, std::floor(machine.node_ranks / payload.stride));
  const bool alike = n * payload.stride >= setup.ranks || setup.ranks <= machine.node_ranks;
  const double k = alike ? std::min(here, n) : std::gcd(std::llround(here), payload.ranks);
  const double m = std::ceil((here - k + n) / here);
  const double ranks = machine.sharers(setup.ranks);
  const double cards = on_cpu(machine) ? 1 / ranks : k;
  const double inside = machine.node_bandwidth / ranks;
  const double outside = cards * machine.network_bandwidth / machine.network_oversubscription;
  const double bandwidth = m == 1 ? inside : k == 1 ? outside : std::min(inside, outside);
  const double latency = (n - m) * machine.node_latency + (m - 1) * machine.network_latency;
  const double seconds = payload.bytes / (bandwidth * machine.network_efficiency);
  if (on_cpu(machine)) return {0, latency + seconds, m > 1};
  return {latency, seconds, m > 1};
}

Played play(const std::deque<Issued>& log, const Machine& machine, const Setup& setup,
            std::size_t warm_up) {
  Player player(log, machine, setup);
  player.play(warm_up);
  return player.play(log.size());
}

}  // namespace nanofsdp::plan
