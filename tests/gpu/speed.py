"""Speed of one training step in bfloat16 on a GPU: `speed.py ours`, `eager` or `compile`, and the
names of models, if these are others than the one that the variable `model` has (CASES).

Ours is nanofsdp, the other two are nanoGPT in PyTorch under autocast, as nanoGPT trains it: fused
attention, fused AdamW. Sizes, random tokens and what is timed are the same: drawing a batch and
sending it, forward, backward, clipping, AdamW, and reading the loss. Writes the median step after
some to warm up, as JSON. check.sh calls this and sets the variables it reads.
"""

import array
import functools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

WARM_UP, VOCABULARY = 5, 50304
DEVICE = os.environ["device"]
# Layers, heads, width, context, rows; whether blocks are computed again in backward; steps.
CASES = {"": (os.environ["model"], False, 20), "medium": ("24,16,1024,1024,16", False, 10), "xl": ("48,25,1600,1024,16", True, 5)}
WORK = pathlib.Path(os.environ["work"])
BINARY = pathlib.Path(os.environ["build"], "nanofsdp").absolute()


def tokens():
    random.seed(1337)
    return array.array("H", random.choices(range(VOCABULARY), k=1 << 20))


def ours(name):
    model, recompute, steps = CASES[name]
    layers, heads, width, context, rows = model.split(",")
    data = WORK / "data" / "random"
    data.mkdir(parents=True, exist_ok=True)
    for split in ("train", "val"):
        (data / f"{split}.bin").write_bytes(tokens().tobytes())
    metrics = WORK / f"speed_ours{name}.jsonl"
    # Large models draw each weight once.
    more = ["--recompute=True", "--init_order=fsdp"] if recompute else []
    if DEVICE == "cuda":
        more.append(f"--products={WORK / 'products.txt'}")
    subprocess.run([BINARY, "train", "train_gpt2", f"--device={DEVICE}", "--param_dtype=bfloat16", "--dataset=random",
                    f"--batch_size={rows}", "--gradient_accumulation_steps=1", f"--block_size={context}",
                    f"--n_layer={layers}", f"--n_head={heads}", f"--n_embd={width}", f"--max_iters={WARM_UP + steps}",
                    "--eval_interval=100000", "--eval_iters=1", "--sample=0", "--out_dir=", "--decay_lr=False", f"--metrics={metrics}",
                    *more],
                   cwd=WORK, check=True)
    steps = [r for r in map(json.loads, metrics.read_text().splitlines()) if "loss" in r]
    return ([r["ms"] for r in steps], [r["loss"] for r in steps], sum(steps[-1]["peak_bytes"].values()),
            {"words": "nanofsdp"})


def limits(torch):
    """What this GPU does at most: a large product in bfloat16, and a large copy, read and written."""
    def seconds(work):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(15):
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(1e-3 * begin.elapsed_time(end))
        return statistics.median(times[5:])

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(1 << 30, device="cuda")
    copy = torch.empty_like(source)
    return {"product_tflops": 1e-12 * 2 * 8192 ** 3 / seconds(lambda: a @ b),
            "copy_gb_per_s": 1e-9 * 8 * source.numel() / seconds(lambda: copy.copy_(source))}


def pytorch(name, compiled):
    model_of_case, recompute, steps = CASES[name]
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "parity"))
    import torch
    from torch.utils.checkpoint import checkpoint

    import bench_reference
    import reference

    bench_reference.configure(model_of_case, "fused")
    torch.manual_seed(1337)
    data = torch.tensor(tokens().tolist())
    with torch.device(DEVICE if recompute else "cpu"):  # to draw the weights of a large model takes a CPU long
        model = reference.GPT(VOCABULARY)
        reference.initialise(model, "fsdp", 1337)
    model.to(DEVICE)
    if recompute:
        for block in model.h:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    step = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    times, losses = [], []
    for _ in range(WARM_UP + steps):
        start = time.perf_counter()
        batch = reference.batch(data, 0, 1, DEVICE)
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = step(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())  # waits for forward only
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    on_gpu = DEVICE == "cuda"
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    found = {"words": f"PyTorch {torch.__version__}, {'torch.compile' if compiled else 'eager'}"}
    del model, step, optimizer, loss, batch
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        if not compiled and not name:
            found["limits"] = limits(torch)
    return times, losses, peak, found


def measure(who, name):
    times, losses, peak, found = ours(name) if who == "ours" else pytorch(name, who == "compile")
    layers, _, width, context, rows = map(int, CASES[name][0].split(","))
    ms = statistics.median(times[WARM_UP:])
    # nanoGPT's count of operations for a token: 6 for each parameter but positions, and attention.
    parameters = width * VOCABULARY + layers * (12 * width + 2) * width + width
    operations = 6 * parameters + 12 * layers * width * context
    per_second = 1e3 * rows * context / ms
    found.update({"ms": ms, "fastest": min(times[WARM_UP:]), "slowest": max(times[WARM_UP:]),
                  "tokens_per_s": per_second, "tflops": 1e-12 * operations * per_second, "peak_bytes": peak,
                  "first_loss": losses[0], "last_loss": losses[-1], "model": CASES[name][0]})
    (WORK / f"speed_{who}{name}.json").write_text(json.dumps(found))
    print(json.dumps(found, indent=1))


def main():
    for name in sys.argv[2:] or [""]:
        measure(sys.argv[1], name)


if __name__ == "__main__":
    main()
