// A perceptron of two layers learns to multiply, sharded over 3 ranks in each of six ways.
#include <nanofsdp/nanofsdp.h>

#include <cstdio>

using namespace nanofsdp;

struct Perceptron : nn::Module {
  nn::Linear hidden{{.in = 2, .out = 50}}, out{{.in = 50, .out = 1}};
  Perceptron() { add("hidden", hidden), add("out", out); }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor h = hidden.forward(tape, x), active = tape.allocate(h.shape());
    ops::gelu(tape.stream(), ops::GeluForward{.x = h, .y = active});
    tape.save({h});
    return out.forward(tape, active);
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor d = out.backward(tape, dy);
    const auto [h] = tape.restore<1>();
    ops::gelu(tape.stream(), ops::GeluBackward{.dy = d, .x = h, .dx = d});
    return hidden.backward(tape, d);
  }
};

void train(Context& context, comm::Mesh mesh, const fsdp::Options& options) {
  Perceptron model;
  fsdp::ShardedModel sharded(context, model, mesh, options);
  Generator seed(1), data(2 + context.rank);  // the same weights on every rank, but other data
  fsdp::deferred_init(context, sharded.units(), fsdp::breadth_first_draws(sharded.units()), seed);
  fsdp::ShardedOptimizer adamw(context, sharded.units(), {.weight_decay = 0});
  fsdp::GradNorm norm(context, mesh);
  nn::Tape tape(context);
  float x[32], loss = 0;
  for (int step = 0; step < 200; ++step) {
    data.uniform(x, -1, 1);
    tape.begin(/*training=*/true);
    const Tensor y = sharded.forward(tape, Tensor(x, {16, 2}));
    loss = 0;
    for (int i = 0; i < 16; ++i) {
      const float error = y.f32()[i] - x[2 * i] * x[2 * i + 1];
      loss += error * error / 16;
      y.f32()[i] = error / 8;  // the gradient, in the place of y
    }
    sharded.zero_grad();
    sharded.backward(tape, y);
    norm.compute(sharded.units(), /*max_norm=*/1);
    adamw.step(/*lr=*/0.01, norm.coefficient());
  }
  const std::string name = fsdp::name_of(options.strategy);
  if (context.rank == 0) std::printf("%-15s loss %.9g\n", name.c_str(), loss);
}

int main(int argc, char**) {
  const auto backend = argc > 1 ? comm::Backend::local : comm::Backend::gloo;
  return comm::run_ranks({.ranks = 3, .backend = backend}, [](Context& context, auto world) {
    for (int i = 0; i < 6; ++i)
      train(context, comm::Mesh(world->split(0)),
            {.strategy = fsdp::ShardingStrategy(i), .wrap_policy = fsdp::is_a<nn::Linear>});
  });
}
