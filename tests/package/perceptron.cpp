// Two layers learn to subtract, sharded over 3 ranks in each of seven ways.
#include <nanofsdp/nanofsdp.h>

#include <cstdio>
using namespace nanofsdp;
struct Perceptron : nn::Module {
  nn::Linear in{{.in = 2, .out = 50}}, out{{.in = 50, .out = 1}};
  Perceptron() { add("in", in), add("out", out); }
  Tensor do_forward(nn::Tape& t, Tensor x) override { return out.forward(t, in.forward(t, x)); }
  Tensor do_backward(nn::Tape& t, Tensor d) override { return in.backward(t, out.backward(t, d)); }
};

void train(Context& context, comm::Mesh mesh, const fsdp::Options& options) {
  Perceptron model;
  auto sharded = fsdp::fully_shard(context, model, mesh, options);
  Generator seed(1), data(2 + context.rank);  // the same weights on every rank, but other data
  fsdp::deferred_init(context, sharded.units(), seed);
  fsdp::AdamW adamw(context, sharded.units(), {.weight_decay = 0});
  nn::Tape tape(context);
  for (int step = 0; step < 200; ++step) {
    float x[32];
    data.uniform(x, -1, 1);
    sharded.zero_grad();
    tape.begin(/*training=*/true);
    const Tensor y = sharded.forward(tape, Tensor(x, {16, 2}));  // becomes its loss' gradient
    for (int i = 0; i < 16; ++i) y.f32()[i] = (y.f32()[i] - (x[2 * i] - x[2 * i + 1])) / 16;
    sharded.backward(tape, y);
    adamw.step(/*lr=*/0.01, sharded.clip(/*max_norm=*/1));
  }
  const std::string name = fsdp::name_of(options.strategy);
  if (context.rank == 0) std::printf("%-23s %.9g\n", name.c_str(), *sharded.grad_norm().f32());
}

int main(int argc, char**) {
  const auto backend = argc > 1 ? comm::Backend::local : comm::Backend::gloo;
  return comm::run_ranks({.ranks = 3, .backend = backend}, [](Context& context, auto world) {
    for (const fsdp::Sharding& way : fsdp::kShardings)
      train(context, comm::Mesh(world->split(0)), {.strategy = way.strategy});
  });
}
