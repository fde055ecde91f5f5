"""The lines of lesson 15 in PyTorch, on 2 ranks."""

from prelude import *

model = GPT()
x, y = next_batch()

#! [lines]
dtypes = dict(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.layers:
    fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(**dtypes))
fully_shard(model, mesh=mesh,    # logits in float32, for the loss
            mp_policy=MixedPrecisionPolicy(**dtypes, output_dtype=torch.float32))
loss = loss_of(model(x), y)
loss.backward()
assert all(p.dtype == torch.float32 for p in model.parameters())
#! [lines]

in_float32, in_bfloat16 = page("all-gather of a block on")[1::2]
block = [whole // 2 for kind, whole, _ in seen.calls if kind == "all-gather"][1]  # after the root
compare("bytes of a block's all-gather", in_bfloat16, block)
block = [whole // 2 for kind, whole, _ in seen.calls if kind == "reduce-scatter"][0]
compare("bytes of its reduce-scatter", in_float32, block)
optimizer = torch.optim.AdamW(model.parameters())
optimizer.step()
kept = parameters_of(model) + gradients_of(model) + moments_of(optimizer)
compare("bytes a parameter, of both ranks", page("float32 ", 1)[-1], 2 * kept // numel_of(model))
for name, dtypes in (("float32 ", {}), ("mixed ", dtypes)):
    torch.manual_seed(1337)
    model = GPT(layers=2, width=64, context=32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(**dtypes))
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(**dtypes, output_dtype=torch.float32))
    optimizer = adamw(model)
    losses = [step(model, optimizer, *next_batch(context=32))[0] for _ in range(10)]
    compare(f"{name}loss of step 1", page(name)[0], losses[0])
    compare(f"{name}loss of step 10", page(name)[1], losses[9])
finish()
