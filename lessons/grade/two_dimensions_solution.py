"""The answers of the sheet of lessons/two_dimensions.md, by formula. The handout does not have this file."""

import math


def answers(n):
    """The answer of each question, from the numbers of a sheet (sheet.py)."""
    shards = n["ranks"] // (n["replicas"] * n["tensor"])
    in_shards, in_tensor = (shards - 1) / shards, (n["tensor"] - 1) / n["tensor"]
    parameters = 12 * n["blocks"] * n["width"] ** 2 / n["tensor"]  # of the ranks that one shard group has
    # An all-reduce is a reduce-scatter and an all-gather; each block has four: two forward, two backward.
    of_tensor = n["blocks"] * 4 * 2 * in_tensor * n["width"] * 2
    of_fsdp = 3 * in_shards * parameters * 2 / n["tokens"]
    return {
        1: shards,
        2: 16 * parameters / shards,
        3: of_tensor,
        4: of_fsdp,
        5: math.ceil(of_fsdp * n["tokens"] / of_tensor - 1e-9),
        6: 2 * (n["replicas"] - 1) / n["replicas"] * 4 * parameters / shards,
        7: math.ceil(in_shards * n["tflops"] * 1e3 / n["gb_per_s"] / n["tensor"] - 1e-9),
    }
