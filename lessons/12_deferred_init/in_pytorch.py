"""The lines of lesson 12 in PyTorch, on 2 ranks."""

from prelude import *

#! [lines]
with torch.device("meta"):
    model = GPT()                         # names and shapes, 0 bytes
for module in [*model.layers, model]:
    fully_shard(module, mesh=mesh)
model.to_empty(device=mesh.device_type)   # memory for this rank's shards only
torch.manual_seed(1337 + rank)            # on a CPU each rank draws its own shards
model.init_weights()                      # each parameter is now a DTensor
#! [lines]

with torch.device("meta"):
    declared = [p for p in GPT().parameters() if p.device.type != "meta"]
whole = GPT()
torch.manual_seed(1337)
whole.init_weights()  # all elements, in the same order on every rank
same = sum(int((local(a) == b.chunk(2)[rank]).sum()) for a, b in zip(model.parameters(), whole.parameters()))
compare("parameters", page("declared:")[0], len(list(model.parameters())))
compare("elements", page("declared:")[1], numel_of(model))
compare("bytes of parameters, declared", page("declared:")[2], bytes_of(declared))
compare("bytes of a shard", page("W = 2")[0], parameters_of(model))
compare("elements as without sharding", page("2 ranks, 2 seeds, sync_module_states = false:")[0], same,
        9 * 64, "on a CPU a DTensor draws its shard only, so weights depend on W; layer norms are 1")
again = model.layers[0].mlp.c_fc.weight.full_tensor()
compare("rows of a matrix that come twice", 0, int((again[:256] == again[256:]).all(1).sum()))
torch.manual_seed(1337)  # the mistake: one seed for all ranks
model.init_weights()
again = model.layers[0].mlp.c_fc.weight.full_tensor()
compare("the same with one seed", 0, int((again[:256] == again[256:]).all(1).sum()), 256,
        "the ranks draw the same numbers: each half of a matrix is the other half")
finish()
