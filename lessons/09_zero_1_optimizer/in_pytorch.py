"""The lines of lesson 09 in PyTorch, on 4 ranks."""

from prelude import *

model = GPT(vocabulary=65)
x, y = next_batch()

made = 2  # broadcasts of DDP's constructor: shapes and first weights

#! [lines]
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

replica = DistributedDataParallel(model)  # averages gradients, as in lesson 05
optimizer = ZeroRedundancyOptimizer(replica.parameters(), torch.optim.AdamW, lr=1e-3)
loss = loss_of(replica(x), y)
loss.backward()
optimizer.step()  # each rank updates its parameters and sends them to the others
#! [lines]

parameters, gradients, moments, *_ = page("by hand")
loads = [0] * world_size  # whole parameters, the largest first, each to the rank that has the least
for numel in sorted((p.numel() for p in model.parameters()), reverse=True):
    loads[loads.index(min(loads))] += numel
everything = torch.tensor(moments_of(optimizer.optim))
compare("bytes of parameters", parameters, parameters_of(model))
compare("bytes of gradients", gradients, gradients_of(model))
compare("bytes of moments on rank 0", moments, everything.item(), 8 * loads[0],
        "ZeroRedundancyOptimizer gives whole parameters to ranks")
compare("collectives of gradients", page("by hand", 1)[1], seen.count("all-reduce"), 1,
        "DDP all-reduces a bucket of 25 MB at once")
compare("collectives of parameters", page("by hand", 1)[2], seen.count("broadcast") - made, 27,
        "each of the 27 parameters is broadcast by the rank that updates it")
compare("no_shard: bytes to send", page("no_shard", 1)[3], seen.sent())
dist.all_reduce(everything)
compare("moments of all ranks together", page("no_shard")[2], everything.item())
compare("loss of step 1", page("step 1 ")[0], average(loss))
compare("gradient norm", page("step 1 ")[1], clip(model))
finish()
