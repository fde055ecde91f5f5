"""The lines of lesson 04 in PyTorch, on 2 ranks."""

from prelude import *

#! [lines]
n = 1000000
rows = torch.arange(float(n)) * (rank + 1)
chunk = torch.empty(n // world_size)
dist.reduce_scatter_tensor(chunk, rows)
both = torch.empty(n)
dist.all_gather_into_tensor(both, chunk)
dist.all_reduce(rows)
assert torch.equal(both, rows)
#! [lines]

scatter, gather, reduce = page("W = 2: reduce-scatter")
compare("reduce-scatter: bytes to send", scatter, seen.sent(["reduce-scatter"]))
compare("all-gather: bytes to send", gather, seen.sent(["all-gather"]))
compare("all-reduce: bytes to send", reduce, seen.sent(["all-reduce"]))


def really_sent(collective, *tensors):
    """The bytes that Gloo writes, to the nearest 10,000: its headers are small."""
    dist.barrier()
    before = written()
    collective(*tensors)
    return round(written() - before, -4)


if sys.platform == "linux":
    compare("reduce-scatter: bytes sent", scatter, really_sent(dist.reduce_scatter_tensor, chunk, rows), reduce,
            "over Gloo, PyTorch all-reduces everything and keeps a chunk")
    compare("all-gather: bytes sent", gather, really_sent(dist.all_gather_into_tensor, both, chunk))
    compare("all-reduce: bytes sent", reduce, really_sent(dist.all_reduce, rows))
finish()
