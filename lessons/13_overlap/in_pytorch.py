"""The lines of lesson 13 in PyTorch, on 2 ranks."""

from prelude import *

from gpt import Block


class Blocks(nn.Module):
    """4 units, and no parameter beside them, as in the lesson."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(128, 4) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def exposed(model):
    """Milliseconds for which computation waits in a step, if everything takes the lesson's times: 8 for
    a forward, 16 for a backward, 5 for a collective. Hooks tell the order in which PyTorch issues them."""
    seen.calls.clear()
    works = []  # of each computation: its time, and how many collectives were issued before it
    for layer in model.layers:
        first, last = layer.ln_1, layer.mlp.c_proj
        first.register_forward_pre_hook(lambda *_: works.append((8, len(seen.calls))))
        last.register_full_backward_pre_hook(lambda *_: works.append((16, len(seen.calls))))
    loss_of(model(x), y).backward()
    kinds = [kind for kind, _, _ in seen.calls]
    now, waited, issued, gathered = 0, 0, 0, []
    lanes = {"all-gather": 0, "reduce-scatter": 0}  # until when each is busy
    for i, (takes, before) in enumerate([*works, (0, len(kinds))]):
        for kind in kinds[issued:before]:
            lanes[kind] = max(lanes[kind], now) + 5
            gathered += [lanes[kind]] if kind == "all-gather" else []
        due = gathered[i] if i < len(works) else lanes["reduce-scatter"]
        issued, waited, now = before, waited + max(0, due - now), max(now, due) + takes
    return waited


model = Blocks()
x, y = torch.randn(2, 64, 128), torch.randint(128, (2, 64))

#! [lines]
for layer in model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
for this, following in zip(model.layers, model.layers[1:]):
    this.set_modules_to_forward_prefetch([following])
    following.set_modules_to_backward_prefetch([this])
loss_of(model(x), y).backward()
#! [lines]

compare("units", page("")[0], sum(isinstance(m, FSDPModule) for m in model.layers))
compare("collectives of a step", page("")[1], len(seen.calls))
compare("prefetch: ms exposed", page("prefetch:")[0], exposed(model))
model = Blocks()
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
compare("no prefetch: ms exposed", page("no prefetch:")[0], exposed(model), 30,
        "without a word, FSDP2 prefetches in backward, so three gathers of 5 ms are hidden")
finish()
