"""The lines of lesson 26 in PyTorch, on 4 ranks."""

from prelude import *

import prelude
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

model = GPT(vocabulary=65)
for layer in model.layers:  # each rank's rows of c_attn are neighbours: queries, keys, values of its heads
    weight = layer.attn.c_attn.weight.data
    weight.copy_(weight.unflatten(0, (3, 2, -1)).transpose(0, 1).flatten(0, 2).clone())


class Sums(TorchDispatchMode):
    """Keeps the bytes of each all-reduce inside a DTensor's operator, which no other mode sees."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, operator, types, arguments=(), words=None):
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented
        if operator._schema.name.startswith("_c10d_functional::all_reduce"):
            self.calls.append(arguments[0].numel() * arguments[0].element_size())
        return operator(*arguments, **(words or {}))


def next_rows():
    """The rows of this rank's tensor group."""
    prelude.world_size, prelude.rank = 2, rank // 2
    rows = next_batch()
    prelude.world_size, prelude.rank = 4, rank
    return rows


#! [lines]
grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("shard", "tensor"))
for layer in model.layers:
    layer.attn.heads //= 2
    parallelize_module(layer, grid["tensor"], {
        "attn.c_attn": ColwiseParallel(), "attn.c_proj": RowwiseParallel(),
        "mlp.c_fc": ColwiseParallel(), "mlp.c_proj": RowwiseParallel()})
    fully_shard(layer, mesh=grid["shard"])
fully_shard(model, mesh=grid["shard"])
#! [lines]

optimizer = adamw(model)
for i in range(20):
    x, y = next_rows()
    optimizer.zero_grad()
    seen.calls.clear()
    with Sums() as sums:
        loss = loss_of(model(x), y)
        loss.backward()
    calls = list(seen.calls)
    parts = [p for p in model.parameters() if p.grad.device_mesh.ndim == 2]
    others = [p for p in model.parameters() if p.grad.device_mesh.ndim == 1]
    norms = [nn.utils.get_total_norm([p.grad for p in group]).full_tensor() for group in (parts, others)]
    norm = torch.stack(norms).norm()
    for p in model.parameters():
        p.grad.mul_(torch.clamp(1 / (norm + 1e-6), max=1.0))
    optimizer.step()
    if i in (0, 9, 19):
        compare(f"loss of step {i + 1}", page("2 x 2")[(0, 9, 19).index(i)], average(loss))
seen.calls[:] = calls
by_shards, by_tensor, all_reduces, keeps = page("2 x 2", 1)
compare("bytes by shards", by_shards, seen.sent(["all-gather", "reduce-scatter"]), by_shards + 2 * 256,
        "65 rows of the token table are padded to 66, and are gathered once and reduced once")
compare("all-reduces", all_reduces, len(sums.calls))
compare("bytes by tensor", by_tensor, sum(sums.calls))  # 2 (T - 1) / T of their bytes, and T is 2
compare("bytes kept by rank 0", keeps, parameters_of(model) + gradients_of(model) + moments_of(optimizer),
        keeps + 1024, "rank 0 has 33 rows of the token table, half a row of 128 more than ours")
finish()
