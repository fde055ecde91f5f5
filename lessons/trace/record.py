"""Records two steps of the lessons' GPT, with PyTorch's profiler and with nanofsdp's own tracer.

    record.py OUT --text=FILE --binary=build/release/nanofsdp

Both runs have 2 ranks on the CPU over Gloo, full_shard (FSDP2), one thread a rank. OUT gets
torch_0.json and torch_1.json, a file for each rank, and nanofsdp.json with both. All of them open in
https://ui.perfetto.dev. The interpreter needs PyTorch with FSDP2.
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/parity"))
try:
    import reference
    import torch
except ImportError as missing:
    sys.exit(f"make trace: {missing}: name an interpreter that has PyTorch, as in "
             "PYTHON=/path/to/python3; `make parity TORCH=install` makes build/torch/bin/python")

RANKS, WARM_UP, STEPS = 2, 8, 2


def profiled_rank(rank, options, out):
    torch.set_num_threads(1)
    reference.os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port), RANK=str(rank),
                                WORLD_SIZE=str(RANKS), GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo")
    steps = reference.train(options, rank, RANKS)
    for _ in range(WARM_UP):
        next(steps)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for step in range(STEPS):
            with torch.profiler.record_function(f"step {step}"):
                next(steps)
    profiler.export_chrome_trace(str(out / f"torch_{rank}.json"))
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--text", required=True)
    parser.add_argument("--binary", required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    options = reference.parse([f"--text={arguments.text}", "--how=fsdp2", f"--ranks={RANKS}",
                               f"--max_iters={WARM_UP + STEPS}", "--init_order=fsdp"])
    torch.multiprocessing.spawn(profiled_rank, (options, arguments.out), nprocs=RANKS)
    subprocess.run([arguments.binary, "train", f"--ranks={RANKS}", "--backend=gloo", "--threads=1",
                    f"--text={arguments.text}", "--max_iters=20", "--eval_iters=1", "--out_dir=",
                    "--init_order=fsdp", f"--trace={arguments.out / 'nanofsdp.json'}"],
                   check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
