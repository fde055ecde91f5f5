#include "step.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "frame/learner.h"
#include "ops/adamw.h"
#include "ops/elementwise.h"
#include "ops/norm.h"

namespace lesson::mine {
namespace {

constexpr int kGather = 2, kCompute = 3;  // times of a block in milliseconds, for the schedule
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

lesson::Schedule forward_of(int blocks, bool ahead) {
  using Did = lesson::Schedule::value_type;
  lesson::Schedule schedule;
  const auto issue = [&] { schedule.push_back({Did::issue, 0, kGather}); };
  if (ahead) issue();
  for (int block = 0; block < blocks; ++block) {
    if (!ahead) issue();
    schedule.push_back({Did::wait, 0, 0, block});
    if (ahead && block + 1 < blocks) issue();
    schedule.push_back({Did::compute, 0, kCompute});
  }
  return schedule;
}

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

std::deque<Unit> units_of(gpt::GPT& model, int W, const Pieces& pieces) {
  std::deque<Unit> units;
  for (const fsdp::WrappedModule& wrapped : fsdp::wrap(model, is_block)) {
    Unit& unit = units.emplace_back(
        Unit{wrapped, fsdp::Layout(fsdp::specs_of(wrapped.parameters), W, kAlignment)});
    unit.name = short_name(wrapped.name);
    std::vector<float> row(static_cast<std::size_t>(unit.layout.padded_numel()));
    const auto views = pieces.views(row, unit.layout.parameters(), kAlignment);
    require(views.size() == wrapped.parameters.size(), "lesson 07: not one view a parameter");
    for (std::size_t i = 0; i < views.size(); ++i) {
      const std::int64_t begin = views[i].data() - row.data();
      require(begin >= 0 && begin + std::ssize(views[i]) <= std::ssize(row) &&
                  std::ssize(views[i]) == unit.layout.parameters()[i].numel(),
              "lesson 07: a view is not as long as its parameter, or not inside the row");
      unit.at.push_back({begin, begin + std::ssize(views[i])});
    }
  }
  return units;
}

fsdp::Piece piece_of(const Unit& unit, std::size_t i, int rank, const Pieces& pieces) {
  const fsdp::Piece piece = pieces.piece(unit.at[i], unit.layout.shard_of(rank));
  const auto& [shard, parameter] = piece;
  require(shard.begin >= 0 && shard.begin <= shard.end && shard.end <= unit.layout.shard_numel() &&
              parameter.begin >= 0 && parameter.end <= unit.at[i].size() &&
              shard.size() == parameter.size(),
          "lesson 08: a piece is outside of its shard or parameter, or has two sizes");
  return piece;
}

void show_parameters(Unit& unit, float* row) {
  for (std::size_t i = 0; i < unit.at.size(); ++i) {
    nn::Parameter& parameter = *unit.wrapped.parameters[i];
    parameter.data = Tensor(row + unit.at[i].begin, parameter.shape);
  }
}

void show_gradients(Unit& unit, float* row) {
  for (std::size_t i = 0; i < unit.at.size(); ++i) {
    nn::Parameter& parameter = *unit.wrapped.parameters[i];
    parameter.show_grad(Tensor(row + unit.at[i].begin, parameter.shape));
  }
}

// The verbs that a unit offers to the hooks of lesson 11.
class ShardedRank::Verbs final : public HookedUnit {
 public:
  Verbs(ShardedRank& rank, Unit& unit) : rank_(rank), unit_(unit) {}

  bool is_root() const override { return &unit_ == &rank_.units_.back(); }
  bool is_training() const override { return rank_.training_; }
  bool has_gradient() const override { return unit_.borrowed; }

  void gather() override {
    if (!std::exchange(unit_.ahead, false)) rank_.gather(unit_);
    show_parameters(unit_, unit_.whole.f32());
  }
  void discard() override { rank_.discard(unit_); }
  void borrow() override {
    ops::fill(*rank_.context_.compute, {.x = unit_.whole_gradient, .value = kNaN});
    show_gradients(unit_, unit_.whole_gradient.f32());
    unit_.borrowed = true;
  }
  void zero() override {
    ops::fill(*rank_.context_.compute, {.x = unit_.whole_gradient, .value = 0});
  }
  void reduce() override {
    unit_.complete = true;
    rank_.reduce_completed();
  }

  Unit& unit() { return unit_; }

 private:
  ShardedRank& rank_;
  Unit& unit_;
};

ShardedRank::~ShardedRank() = default;

ShardedRank::ShardedRank(Context& context, comm::Communicator& world, const Pieces& pieces,
                         std::deque<Unit>& units, const Rows& rows)
    : context_(context), world_(world), pieces_(pieces), units_(units) {
  const int blocks = static_cast<int>(units.size()) - 1;
  int slots = 1;  // the smallest number that is as fast as one slot for each block
  const auto time = [&](int with) { return pieces.finish({blocks, with, kGather, kCompute}); };
  while (slots < blocks && time(slots) > time(blocks)) ++slots;
  const int late = pieces.exposed(forward_of(blocks, false));
  const int early = pieces.exposed(forward_of(blocks, true));
  ahead_ = early < late, waits_ = std::min(early, late);

  const std::int64_t block = units.front().layout.padded_numel();
  const std::int64_t root = units.back().layout.padded_numel();
  block_slots_ = context.buffer(MemoryClass::unsharded_parameters, slots * block);
  root_slot_ = context.buffer(MemoryClass::unsharded_parameters, root);
  block_gradients_ = context.buffer(MemoryClass::unsharded_gradients, slots * block);
  root_gradient_ = context.buffer(MemoryClass::unsharded_gradients, root);
  discarded_.assign(static_cast<std::size_t>(std::max(block, root)), kNaN);
  norm_ = context.buffer(MemoryClass::communication, 1);
  coefficient_ = context.buffer(MemoryClass::communication, 1);
  for (std::size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    const bool is_root = u + 1 == units.size();
    const std::int64_t slot = is_root ? 0 : static_cast<std::int64_t>(u) % slots * block;
    const std::int64_t n = unit.layout.padded_numel(), s = unit.layout.shard_numel();
    unit.whole =
        (is_root ? root_slot_.tensor({root}) : block_slots_.tensor({slots * block})).slice(slot, n);
    unit.whole_gradient =
        (is_root ? root_gradient_.tensor({root}) : block_gradients_.tensor({slots * block}))
            .slice(slot, n);
    unit.parameters = context.buffer(MemoryClass::parameter_shards, s);
    unit.gradients = context.buffer(MemoryClass::gradient_shards, s);
    unit.m = context.buffer(MemoryClass::optimizer, s);
    unit.v = context.buffer(MemoryClass::optimizer, s);
    discard(unit);
    attach(unit);
  }
  load(rows);
}

void ShardedRank::load(const Rows& rows) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const fsdp::Range mine = units_[u].layout.shard_of(world_.rank());
    std::copy_n(rows[u].begin() + mine.begin, mine.size(),
                units_[u].parameters.tensor({mine.size()}).f32());
  }
}

// The hooks for forward are on the modules inside a block. So they are also called when the block
// runs forward again in its backward.
void ShardedRank::attach(Unit& unit) {
  nn::Module& module = *unit.wrapped.module;
  Verbs& verbs = verbs_.emplace_back(*this, unit);
  const auto hook = [this, &verbs](::Hook which) {
    return [this, &verbs, which](nn::Tape&) { call(which, verbs); };
  };
  nn::Module& first = verbs.is_root() ? module : *module.children().front().second;
  nn::Module& last = verbs.is_root() ? module : *module.children().back().second;
  first.hooks.pre_forward = hook(::Hook::pre_forward);
  last.hooks.post_forward = hook(::Hook::post_forward);
  module.hooks.pre_backward = hook(::Hook::pre_backward);
  module.hooks.post_backward = hook(::Hook::post_backward);
  module.recompute = !verbs.is_root();
}

void ShardedRank::begin_pass(bool training, bool first) {
  training_ = training, first_ = first;
  const int blocks = static_cast<int>(units_.size()) - 1;
  blocks_.clear(), used_.clear(), order_.clear(), next_ = 0, reduced_ = 0;
  for (int block = 0; block < blocks; ++block) blocks_.push_back(block);
  for (int block = blocks - 1; training && block >= 0; --block) blocks_.push_back(block);
}

void ShardedRank::call(::Hook hook, Verbs& verbs) {
  Unit& unit = verbs.unit();
  const ::Action action = pieces_.on(hook, unit.state);
  if (action == ::Action::nothing) return;  // a recompute: the unit is unsharded for its backward

  // A unit is used where its forward begins. The root has both ends of the model, so it is also
  // used where its forward ends.
  if (hook == ::Hook::pre_forward || (verbs.is_root() && hook == ::Hook::post_forward)) {
    const auto is_this = [&](const Unit& other) { return &other == &unit; };
    used_.push_back(static_cast<int>(std::ranges::find_if(units_, is_this) - units_.begin()));
  }
  if (verbs.is_root() && hook == ::Hook::post_forward) order_ = pieces_.completion_order(used_);

  using enum ::Hook;
  (hook == pre_forward    ? pieces_.pre_forward
   : hook == post_forward ? pieces_.post_forward
   : hook == pre_backward ? pieces_.pre_backward
                          : pieces_.post_backward)(verbs);
  if (ahead_ && action == ::Action::gather) gather_ahead();
}

void ShardedRank::gather(Unit& unit) {
  const Tensor shard = unit.parameters.tensor({unit.layout.shard_numel()});
  context_.compute->wait(world_.all_gather(*context_.compute, shard, unit.whole));
  unit.gathered = true;
  if (&unit != &units_.back()) ++next_;
}

// Gathers the block that comes next, if no unit has its slot.
void ShardedRank::gather_ahead() {
  if (next_ >= blocks_.size()) return;
  Unit& unit = units_[static_cast<std::size_t>(blocks_[next_])];
  const auto has_slot = [&](const Unit& other) {
    return other.gathered && other.whole.raw() == unit.whole.raw();
  };
  if (std::ranges::none_of(units_, has_slot)) gather(unit), unit.ahead = true;
}

void ShardedRank::discard(Unit& unit) {
  ops::fill(*context_.compute, {.x = unit.whole, .value = kNaN});
  show_parameters(unit, discarded_.data());
  unit.gathered = false;
}

// Lesson 03 says in which order gradients are complete. So all ranks reduce in the same order.
void ShardedRank::reduce_completed() {
  for (; reduced_ < order_.size(); ++reduced_) {
    const int next = order_[reduced_];
    require(next >= 0 && next < std::ssize(units_), "lesson 03: a number that no unit has");
    Unit& unit = units_[static_cast<std::size_t>(next)];
    if (!std::exchange(unit.complete, false)) return;
    unit.borrowed = false;
    pieces_.reduce_gradient(*context_.compute, world_, unit.whole_gradient.span<float>(),
                            unit.gradients.tensor({unit.layout.shard_numel()}).span<float>(),
                            first_);
  }
}

float ShardedRank::update(int step) {
  Stream& stream = *context_.compute;
  double mine = 0;
  for (const Unit& unit : units_) {
    const Tensor shard = unit.gradients.tensor({unit.layout.shard_numel()});
    mine += pieces_.squares(unit.layout, world_.rank(), shard.span<float>());
  }
  std::vector<double> all(static_cast<std::size_t>(world_.size()));
  const Tensor squares(all.data(), {world_.size()}, DType::float64);
  stream.wait(
      world_.all_gather(stream, Tensor(&mine, {1}, DType::float64), squares, {.control = true}));
  const Tensor norm = norm_.tensor({1}), coefficient = coefficient_.tensor({1});
  ops::clip_coefficient(
      stream, {.squares = squares, .max_norm = kMaxNorm, .norm = norm, .coefficient = coefficient});
  for (Unit& unit : units_) {
    for (std::size_t i = 0; i < unit.at.size(); ++i) {
      const fsdp::Range at = piece_of(unit, i, world_.rank(), pieces_).in_shard;
      if (at.empty()) continue;
      const auto part = [&](const Buffer& of) {
        return of.tensor({unit.layout.shard_numel()}).slice(at.begin, at.size());
      };
      const bool decays = unit.wrapped.parameters[i]->shape.rank() >= 2;
      ops::adamw(stream, {.param = part(unit.parameters),
                          .grad = part(unit.gradients),
                          .m = part(unit.m),
                          .v = part(unit.v),
                          .lr = kAdamRate,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .weight_decay = decays ? 0.1 : 0,
                          .step = step,
                          .grad_scale = coefficient});
    }
  }
  return *norm.f32();
}

}  // namespace lesson::mine
