"""Prints golden/fsdp2_shards.txt: what each rank holds under PyTorch's fully_shard, 1 to 6 ranks.

    python3 golden_shards.py           prints it, from real processes over Gloo
    python3 golden_shards.py --check   compares it with the file; says so if it differs

One line a parameter and rank, and one a unit and rank:

    piece RANKS RANK UNIT SHAPE = PADDED LOCAL HASH
    shard RANKS RANK UNIT = ELEMENTS HASH

PADDED is the shape with padding, LOCAL without; a piece's hash is that of the local elements. A shard
is what the rank puts into the unit's all-gather: its pieces in order, each with padding, which is 0.
A hash is the first 16 digits of the SHA-256 of float32 numbers: element i of a unit's parameter p is
65536 p + i + 1, so every element of a unit is another number.
"""

import argparse
import hashlib
import os
import pathlib
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

FILE = pathlib.Path(__file__).parent / "golden" / "fsdp2_shards.txt"
MOST_RANKS = 6
EMBD = 128
UNITS = {
    "vectors": [(n,) for n in (1, 2, 3, 4, 5, 6, 7, 11, 1001)],
    "matrices": [(1, 1), (1, 9), (2, 3), (3, 5), (4, 4), (5, 2), (6, 7), (7, 1), (13, 3), (97, 11)],
    "cubes": [(1, 2, 3), (2, 3, 4), (4, 1, 1), (5, 3, 2), (12, 2, 2), (31, 5, 7)],
    "nanogpt_block": [(EMBD,), (3 * EMBD, EMBD), (EMBD, EMBD), (EMBD,), (4 * EMBD, EMBD), (EMBD, 4 * EMBD)],
    "nanogpt_root": [(65, EMBD), (64, EMBD), (EMBD,)],
}


def numbers(p, shape):
    n = torch.Size(shape).numel()
    return (65536 * p + 1 + torch.arange(n, dtype=torch.float32)).view(shape)


def digits(tensor):
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def text(shape):
    return "x".join(map(str, shape))


def unit_lines(name, shapes, rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    unit = nn.ParameterList(nn.Parameter(numbers(p, shape)) for p, shape in enumerate(shapes))
    fully_shard(unit, mesh=init_device_mesh("cpu", (ranks,)))
    parameters = unit._get_fsdp_state()._fsdp_param_group.fsdp_params
    for shape, p in zip(shapes, parameters, strict=True):
        local = p.sharded_param.to_local()
        yield (f"piece {ranks} {rank} {name} {text(shape)} = {text(p.padded_sharded_param_size)} "
               f"{text(local.shape)} {digits(local)}")
    unit._get_fsdp_state()._lazy_init()
    shard = torch.cat([data for p in parameters for data in p.all_gather_inputs])
    yield f"shard {ranks} {rank} {name} = {shard.numel()} {digits(shard)}"


def run_rank(rank, ranks, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet_{ranks}", rank=rank, world_size=ranks)
    lines = [line for name, shapes in UNITS.items() for line in unit_lines(name, shapes, rank, ranks)]
    (folder / f"{ranks}_{rank}").write_text("\n".join(lines) + "\n")
    dist.barrier()  # a rank that leaves early may take others with it
    dist.destroy_process_group()


def all_lines():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for ranks in range(1, MOST_RANKS + 1):
            torch.multiprocessing.spawn(run_rank, (ranks, folder), nprocs=ranks)
            for rank in range(ranks):
                yield from (folder / f"{ranks}_{rank}").read_text().splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file")
    args = parser.parse_args()
    head = [f"# PyTorch {torch.__version__}, written by golden_shards.py", "# " + __doc__.splitlines()[0]]
    if not args.check:
        print("\n".join([*head, *all_lines()]))
        return
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        print(f"golden_shards: not compared: PyTorch {torch.__version__} has no fully_shard")
        return
    golden = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    lines = list(all_lines())
    for have, want in zip(lines, golden):
        if have != want:
            sys.exit(f"golden_shards: {FILE.name} has\n  {want}\nand PyTorch {torch.__version__} gives\n  {have}")
    if len(lines) != len(golden):
        sys.exit(f"golden_shards: {FILE.name} has {len(golden)} lines, PyTorch gives {len(lines)}")
    print(f"golden_shards: all {len(lines)} lines of {FILE.name} are those of PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
