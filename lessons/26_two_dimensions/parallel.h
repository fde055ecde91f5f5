#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "gpt/config.h"
#include "nn/embedding.h"
#include "nn/layer_norm.h"
#include "nn/linear.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/gelu.h"
#include "ops/matmul.h"

/// @file
/// @brief A GPT whose blocks are divided over a tensor group (Megatron-LM, Shoeybi et al. 2019,
/// arXiv 1909.08053). Its parameters have the names of gpt::GPT. For the CPU, without biases and
/// dropout.

namespace lesson {

using namespace nanofsdp;

//! [matrix]
/// One rank's part of a Linear without bias. The two classes below say which part it is.
struct PartOfLinear : nn::Module {
  PartOfLinear(comm::Communicator& group, std::int64_t in, std::int64_t out, nn::Part part)
      : group(group) {
    weight = std::make_shared<nn::Parameter>(Shape{out, in}, nn::Init::normal(0.02));
    part.rank = group.rank(), part.ranks = group.size();
    weight->part = part;
    add("weight", weight);
  }

  Tensor product(nn::Tape& tape, Tensor x) {  // of the part that this rank has
    const Tensor y = tape.allocate(x.shape().with(2, weight->shape[0]));
    ops::matmul(tape.stream(), ops::MatmulForward{x.rows(), weight->data, {}, y.rows()});
    tape.save({x});
    return y;
  }
  Tensor gradients(nn::Tape& tape, Tensor dy) {
    const auto [x] = tape.restore<1>();
    const Tensor dx = tape.allocate(x.shape()), dweight = weight->grad_to_add_to();
    ops::matmul(tape.stream(),
                ops::MatmulBackward{dy.rows(), x.rows(), weight->data, dx.rows(), dweight});
    return dx;
  }
  Tensor add_up(nn::Tape& tape, Tensor x) {
    tape.stream().wait(group.all_reduce(tape.stream(), x, comm::ReduceOp::sum, {.unit = "layer"}));
    return x;
  }

  comm::Communicator& group;
  std::shared_ptr<nn::Parameter> weight;
};
//! [matrix]

//! [parallel]
/// Each rank has some rows of the weight [out, in], and computes these columns of y. If the weight
/// consists of several matrices, the rank has some rows of each.
struct ColumnParallel final : PartOfLinear {
  ColumnParallel(comm::Communicator& group, std::int64_t in, std::int64_t out, int matrices = 1)
      : PartOfLinear(group, in, out / group.size(), {.dim = 0, .groups = matrices}) {}
  Tensor do_forward(nn::Tape& tape, Tensor x) override { return product(tape, x); }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    return add_up(tape, gradients(tape, dy));  // each column of y adds to the gradient of x
  }
};

/// Each rank has some columns of the weight [out, in], and these columns of x.
struct RowParallel final : PartOfLinear {
  RowParallel(comm::Communicator& group, std::int64_t in, std::int64_t out)
      : PartOfLinear(group, in / group.size(), out, {.dim = 1}) {}
  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    return add_up(tape, product(tape, x));  // each column of x adds to y
  }
  Tensor do_backward(nn::Tape& tape, Tensor dy) override { return gradients(tape, dy); }
};
//! [parallel]

/// Each rank has some of the heads.
struct ParallelAttention final : nn::Module {
  ParallelAttention(comm::Communicator& group, const gpt::GPTConfig& c)
      : heads(static_cast<int>(c.n_head) / group.size()),
        c_attn(group, c.n_embd, 3 * c.n_embd, /*matrices=*/3),
        c_proj(group, c.n_embd, c.n_embd) {
    add("c_attn", c_attn), add("c_proj", c_proj);
  }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor qkv = c_attn.forward(tape, x);
    const std::int64_t B = x.dim(0), T = x.dim(1), C = qkv.dim(2) / 3;
    const Tensor y = tape.allocate({B, T, C}), lse = tape.allocate({B, heads, T});
    const Tensor scratch = tape.allocate({ops::attention_scratch_numel(T, 1)});
    ops::AttentionForward a{{qkv, 0, heads}, {qkv, C, heads}, {qkv, 2 * C, heads}, y, lse, scratch};
    ops::attention(tape.stream(), a);
    tape.save({qkv, y, lse});
    return c_proj.forward(tape, y);
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor d = c_proj.backward(tape, dy);
    const auto [qkv, y, lse] = tape.restore<3>();
    const std::int64_t T = y.dim(1), C = y.dim(2);
    const Tensor dqkv = tape.allocate(qkv.shape());
    const Tensor scratch = tape.allocate({ops::attention_scratch_numel(T, 1)});
    ops::AttentionBackward a{d, {qkv, 0, heads}, {qkv, C, heads}, {qkv, 2 * C, heads}, y, lse};
    a.dq = {dqkv, 0, heads}, a.dk = {dqkv, C, heads}, a.dv = {dqkv, 2 * C, heads};
    a.scratch = scratch;
    ops::attention(tape.stream(), a);
    return c_attn.backward(tape, dqkv);
  }

  int heads;
  ColumnParallel c_attn;
  RowParallel c_proj;
};

/// Each rank has a part of the hidden layer.
struct ParallelMLP final : nn::Module {
  ParallelMLP(comm::Communicator& group, const gpt::GPTConfig& c)
      : c_fc(group, c.n_embd, 4 * c.n_embd), c_proj(group, 4 * c.n_embd, c.n_embd) {
    add("c_fc", c_fc), add("c_proj", c_proj);
  }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor hidden = c_fc.forward(tape, x), active = tape.allocate(hidden.shape());
    ops::gelu(tape.stream(), ops::GeluForward{hidden, active});
    tape.save({hidden});
    return c_proj.forward(tape, active);
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor d = c_proj.backward(tape, dy);
    const auto [hidden] = tape.restore<1>();
    ops::gelu(tape.stream(), ops::GeluBackward{.dy = d, .x = hidden, .dx = d});
    return c_fc.backward(tape, d);
  }

  ColumnParallel c_fc;
  RowParallel c_proj;
};

/// One unit of FSDP. Layer norms are replicated over the tensor group.
struct ParallelBlock final : nn::Module {
  ParallelBlock(comm::Communicator& group, const gpt::GPTConfig& c)
      : ln_1(c.n_embd, false), attn(group, c), ln_2(c.n_embd, false), mlp(group, c) {
    add("ln_1", ln_1), add("attn", attn), add("ln_2", ln_2), add("mlp", mlp);
  }

  Tensor do_forward(nn::Tape& tape, Tensor x) override {
    const Tensor a = attn.forward(tape, ln_1.forward(tape, x));
    ops::add(tape.stream(), {.a = x, .b = a, .out = a});
    const Tensor m = mlp.forward(tape, ln_2.forward(tape, a));
    ops::add(tape.stream(), {.a = a, .b = m, .out = m});
    return m;
  }

  Tensor do_backward(nn::Tape& tape, Tensor dy) override {
    const Tensor a = ln_2.backward(tape, mlp.backward(tape, dy));
    ops::accumulate(tape.stream(), {.in = a, .out = dy});
    const Tensor x = ln_1.backward(tape, attn.backward(tape, dy));
    ops::accumulate(tape.stream(), {.in = x, .out = dy});
    return dy;
  }

  nn::LayerNorm ln_1;
  ParallelAttention attn;
  nn::LayerNorm ln_2;
  ParallelMLP mlp;
};

}  // namespace lesson
