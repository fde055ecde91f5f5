"""The lines of lesson 19 in PyTorch, on 4 ranks."""

from prelude import *

folder = os.environ["FOLDER"]  # the same on all ranks
model = GPT()
torch.manual_seed(7)


def train(model, optimizer):
    """Six steps of the lesson. The generator draws where the rows begin."""
    for _ in range(6):
        loss, _ = step(model, optimizer, *invented_rows(int(torch.randint(1000, ())) + 3 * rank, 3))
    return loss


for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
optimizer = adamw(model, beta2=0.95)
train(model, optimizer)

#! [save]
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

weights, moments = get_state_dict(model, optimizer)
dcp.save({"weights": weights, "moments": moments}, checkpoint_id=folder)
#! [save]

saved = list(pathlib.Path(folder).glob("*.distcp"))
compare("files of 4 ranks", page("the root unit,")[0], len(saved))
compare("bytes of a rank in its file", page("rank 1 of 3 reads")[1], parameters_of(model) + moments_of(optimizer))
generator = torch.get_rng_state()  # a program saves it itself
compare("never stopped: loss of step 12", page("never stopped"), train(model, optimizer))

model = GPT()  # another run, with other weights
for module in (*model.layers, model):
    fully_shard(module, mesh=mesh)
optimizer = adamw(model, beta2=0.95)
torch.set_rng_state(generator)

#! [load]
weights, moments = get_state_dict(model, optimizer)  # of a new run, on any number of ranks
dcp.load({"weights": weights, "moments": moments}, checkpoint_id=folder)
set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
#! [load]

compare("goes on: loss of step 12", page("on 4 ranks"), train(model, optimizer))
finish()
