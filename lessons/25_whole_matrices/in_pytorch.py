"""The lines of lesson 25 in PyTorch, on 4 ranks."""

from prelude import *
from torch.distributed.tensor.debug import CommDebugMode

model = GPT(vocabulary=65)
x, y = next_batch()

#! [lines]
for block in model.layers:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
matrices = [p for p in model.layers.parameters() if p.ndim == 2]
rest = [p for name, p in model.named_parameters() if not (name.startswith("layers.") and p.ndim == 2)]
muon = torch.optim.Muon(matrices, lr=3e-3, adjust_lr_fn="match_rms_adamw")
adamw = torch.optim.AdamW(rest, lr=1e-3)
loss_of(model(x), y).backward()
muon.step()   # each parameter is a DTensor, and so is each product of the iteration
adamw.step()
#! [lines]

sends = page("Muon's step")
with CommDebugMode() as counted:
    muon.step()
counts = {str(kind).rpartition(".")[2]: n for kind, n in counted.get_comm_counts().items()}
compare("matrices of a block", 4, len(matrices) // len(model.layers))
compare("all-gathers of Muon's step", sends[0], counts["all_gather_into_tensor"], 120,
        "DTensor gathers an operand in most products: 16 matrices, 5 steps of the iteration")
compare("all-reduces of Muon's step", 0, counts["all_reduce"], 96,
        "a norm of each matrix, and sums of its products")
finish()
