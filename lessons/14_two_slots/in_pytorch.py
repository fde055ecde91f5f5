"""The lines of lesson 14 in PyTorch, on 2 ranks."""

from prelude import *

model = GPT(vocabulary=65)
x, y = next_batch()
ahead = []  # at each block: gathers of blocks that were issued and are not computed yet
for i, layer in enumerate(model.layers):
    layer.ln_1.register_forward_pre_hook(lambda *_, i=i: ahead.append(seen.count("all-gather") - 1 - i))

#! [lines]
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
for i, layer in enumerate(model.layers):  # two ahead: three units in memory
    layer.set_modules_to_forward_prefetch(list(model.layers[i + 1:i + 3]))
loss_of(model(x), y).backward()
#! [lines]

#! [memory]
if torch.cuda.is_available():
    print(torch.cuda.max_memory_allocated())
#! [memory]

block = next(whole for kind, whole, _ in seen.calls[1:] if kind == "all-gather")
compare("units gathered at once", page("3 ")[1], max(ahead))
compare("their bytes", page("3 ")[0], max(ahead) * block)
finish()
