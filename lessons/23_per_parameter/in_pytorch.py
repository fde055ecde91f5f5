"""The lines of lesson 23 in PyTorch, on 3 ranks."""

from prelude import *

#! [lines]
C = nn.Linear(2, 7, bias=False)                  # the weight has 7 rows
fully_shard(C, mesh=mesh)
C.weight.shape                                   # on each rank [7, 2]
C.weight.to_local().shape                        # ranks 0 and 1: [3, 2], rank 2: [1, 2]
assert len(C.weight.to_local()) == [3, 3, 1][rank]
C.weight.full_tensor()                           # an all-gather of this one matrix
#! [lines]


class Toy(nn.Module):
    """The lesson's three parameters."""

    def __init__(self):
        super().__init__()
        self.A, self.B, self.C = (nn.Parameter(torch.zeros(shape)) for shape in ((2, 3), (1, 5), (7, 2)))

    def forward(self, x):
        return self.A.sum() + self.B.sum() + self.C.sum()


toy = fully_shard(Toy(), mesh=mesh)
elements, shard, padding = page("the toy on")[1:]
compare("the toy: elements of rank 0's shard", shard, sum(local(p).numel() for p in toy.parameters()))
seen.calls.clear()
toy(torch.zeros(1))
compare("the toy: padding", padding, seen.calls[0][1] // 4 - elements)

model = GPT(vocabulary=65)
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
seen.calls.clear()
x, y = next_batch()
loss_of(model(x), y).backward()
optimizer.step()
once = [whole // 4 for kind, whole, _ in seen.calls if kind == "reduce-scatter"]  # each unit once
compare("nanoGPT: padding", page("padding, W = 3")[1], sum(once) - numel_of(model))
compare("bytes of shards on rank 0", page("shards")[1],
        parameters_of(model) + gradients_of(model) + moments_of(optimizer))
compare("bytes to send", page("a step sends")[1], seen.sent())
finish()
