"""What the files in_pytorch.py of the lessons begin with: `from prelude import *`.

It joins the ranks that run.py starts, over Gloo, and gives the names that the lines on the pages use:
torch, nn, F, dist, fully_shard and its friends, mesh, rank, world_size, GPT, loss_of. The rest are the
functions that count what PyTorch does and compare it with the output that the page quotes.
"""

import datetime
import decimal
import functools
import math
import os
import pathlib
import re
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.utils._python_dispatch import TorchDispatchMode

from gpt import GPT, loss_of

torch.set_num_threads(1)
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
dist.init_process_group("gloo", init_method=os.environ["MEETING"], rank=int(os.environ["RANK"]),
                        world_size=int(os.environ["WORLD_SIZE"]), timeout=datetime.timedelta(seconds=60))
rank, world_size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world_size,))
torch.manual_seed(1337)  # every rank makes the same model, and draws the same batches


class Collectives(TorchDispatchMode):
    """Sees every operator of PyTorch, and keeps (kind, bytes of the whole, ranks) of each collective."""

    KINDS = {"_allgather_base_": "all-gather", "_reduce_scatter_base_": "reduce-scatter",
             "allreduce_": "all-reduce", "broadcast_": "broadcast"}

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, operator, types, arguments=(), words=None):
        kind = self.KINDS.get(operator._schema.name.removeprefix("c10d::"))
        if kind is not None:
            names = dict(zip((a.name for a in operator._schema.arguments), arguments))
            tensors = [t for t in (arguments[0], arguments[1]) if isinstance(t, torch.Tensor)] or arguments[0]
            whole = max(t.numel() * t.element_size() for t in tensors)
            group = dist.ProcessGroup.unbox(names["process_group"])
            self.calls.append((kind, whole, group.size()))
        return operator(*arguments, **(words or {}))

    def count(self, kind):
        return sum(call[0] == kind for call in self.calls)

    def sent(self, kinds=("all-gather", "reduce-scatter", "all-reduce"), ranks=None):
        """The bytes that these collectives need to send, as lesson 04 counts them. Gloo sends more in a
        reduce-scatter; lesson 04's program measures this."""
        return sum(whole * (of - 1) // of * (2 if kind == "all-reduce" else 1)
                   for kind, whole, of in self.calls if kind in kinds and ranks in (None, of))


def written():
    """The bytes that this process has written so far, to sockets and files. Linux counts them."""
    return int(pathlib.Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])


seen = Collectives()  # counts from here on; seen.calls.clear() begins anew
seen.__enter__()


@functools.cache
def text_of_the_lessons():
    """The tales as tokens: their first nine tenths, as nanoGPT's prepare.py for characters."""
    text = pathlib.Path(os.environ["TALES"]).read_text(encoding="utf-8")
    ids = {c: i for i, c in enumerate(sorted(set(text)))}
    return torch.tensor([ids[c] for c in text[: int(0.9 * len(text))]])


def next_batch(rows=12, context=64):
    """This rank's rows of the next batch, and the tokens that follow. Every rank draws all rows."""
    data = text_of_the_lessons()
    starts = torch.randint(len(data) - context, (rows,)).chunk(world_size)[rank]
    return tuple(torch.stack([data[s + d : s + d + context] for s in starts]) for d in (0, 1))


def invented_rows(first, count, vocabulary=52):
    """Rows of an invented language, the same in every run, and the tokens that follow."""
    row = torch.arange(first, first + count)[:, None]
    at = 3 * row + torch.arange(64 + 1)
    tokens = (at * at + row) % vocabulary
    return tokens[:, :-1], tokens[:, 1:]


def adamw(model, beta2=0.99):
    """The optimizer of the lessons: matrices decay, layer norms do not."""
    groups = [[p for p in model.parameters() if (p.dim() >= 2) == matrix] for matrix in (True, False)]
    return torch.optim.AdamW([{"params": groups[0], "weight_decay": 0.1},
                              {"params": groups[1], "weight_decay": 0.0}], lr=1e-3, betas=(0.9, beta2))


def warm_up(step):
    """The learning rate of lesson 01 in its first hundred steps, counted from 0."""
    return 1e-3 * (step + 1) / 101


def average(loss):
    """The mean of a number over the ranks. This all-reduce is not counted."""
    calls, mean = list(seen.calls), loss.detach().clone()
    dist.all_reduce(mean)
    seen.calls[:] = calls
    return mean.item() / world_size


def clip(model):
    """Clips the gradients to 1 and returns their norm before that."""
    calls = list(seen.calls)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    seen.calls[:] = calls
    return norm.item()


def step(model, optimizer, x, y, rate=1e-3):
    """One step of training; the loss over all ranks, and the norm of its gradient."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    norm = clip(model)
    optimizer.step()
    return average(loss), norm


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def bytes_of(tensors):
    """The bytes that this rank keeps of these tensors."""
    return sum(local(t).numel() * t.element_size() for t in tensors)


def parameters_of(model):
    return bytes_of(model.parameters())


def gradients_of(model):
    return bytes_of(p.grad for p in model.parameters() if p.grad is not None)


def moments_of(optimizer):
    return bytes_of(t for s in optimizer.state.values() for t in s.values() if t.dim() > 0)


def numel_of(model):
    return sum(p.numel() for p in model.parameters())


def rows_of(numbers, ranks=None):
    """The rows that rank 0 keeps of so many rows, cut as FSDP2 cuts them."""
    return math.ceil(numbers / (ranks or world_size))


def page(words, nth=0, lesson=None):
    """The other numbers in a line of the output that the lesson's page quotes: in the nth line that begins
    with these words or, if none does, that has them. `lesson` names another lesson, "23"."""
    folder = pathlib.Path(sys.argv[0]).parent
    folder = next(folder.parent.glob(f"{lesson}_*")) if lesson else folder
    text = (folder / "README.md").read_text(encoding="utf-8")
    output = re.search(r"<!-- output: .* -->\n```text\n([^`]*)```", text).group(1)
    lines = [line.strip() for line in output.splitlines() if words in line]
    line = ([line for line in lines if line.startswith(words)] or lines)[nth]
    numbers = re.findall(r"\d+(?:\.\d+)?", line.replace(words, " ", 1))
    found = [decimal.Decimal(n) if "." in n else int(n) for n in numbers]
    return found if len(found) != 1 else found[0]


results = []  # of rank 0, for each comparison: whether it is as expected, and whether it is equal


def compare(what, ours, pytorch, differs=None, why=""):
    """Prints a row. With `differs`, PyTorch is to have this other number, for the reason in `why`."""
    if rank != 0:
        return
    digits = len(str(ours).partition(".")[2])
    shown = f"{pytorch:.{digits}f}" if isinstance(ours, decimal.Decimal) else str(pytorch)
    wanted = ours if differs is None else differs
    expected = shown == str(wanted) and (differs is None or differs != ours)
    results.append((expected, differs is None))
    if not results[1:]:
        print(f"{'':34}{'the page':>14}{'PyTorch':>14}")
    verdict = f"NOT AS EXPECTED: {wanted}" if not expected else "equal" if differs is None else "differs"
    print(f"{what:<34}{ours!s:>14}{shown:>14}  {verdict}" + (f":\n  {why}" if differs is not None else ""))


def finish():
    """The last line, and the exit code: 1 if a number is not as expected."""
    seen.__exit__(None, None, None)
    dist.barrier()  # a rank that leaves early may take others with it
    dist.destroy_process_group()
    wrong = sum(not expected for expected, _ in results)
    differ = sum(not equal for _, equal in results)
    if rank == 0:
        print(f"NOT AS EXPECTED: {wrong} of {len(results)}" if wrong else f"equal: {len(results) - differ}" +
              (f", different for a reason: {differ}" if differ else ""), flush=True)
    sys.exit(1 if wrong else 0)
