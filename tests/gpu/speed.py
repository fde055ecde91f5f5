"""Speed of one training step in bfloat16 on a GPU: `speed.py ours`, `eager` or `compile`.

Ours is nanofsdp, the other two are nanoGPT in PyTorch under autocast, as nanoGPT trains it: fused
attention, fused AdamW. Sizes, random tokens and what is timed are the same: drawing a batch and
sending it, forward, backward, clipping, AdamW, and reading the loss. Writes the median step after
some to warm up, as JSON. check.sh calls this and sets the variables it reads.
"""

import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

WARM_UP, STEPS, VOCABULARY = 5, 20, 50304
MODEL, DEVICE = os.environ["model"], os.environ["device"]
LAYERS, HEADS, WIDTH, CONTEXT, ROWS = map(int, MODEL.split(","))
WORK = pathlib.Path(os.environ["work"])
BINARY = pathlib.Path(os.environ["build"], "nanofsdp").absolute()


def tokens():
    random.seed(1337)
    return array.array("H", random.choices(range(VOCABULARY), k=1 << 20))


def ours():
    data = WORK / "data" / "random"
    data.mkdir(parents=True, exist_ok=True)
    for split in ("train", "val"):
        (data / f"{split}.bin").write_bytes(tokens().tobytes())
    metrics = WORK / "speed_ours.jsonl"
    subprocess.run([BINARY, "train", "train_gpt2", f"--device={DEVICE}", "--param_dtype=bfloat16", "--dataset=random",
                    f"--batch_size={ROWS}", "--gradient_accumulation_steps=1", f"--block_size={CONTEXT}",
                    f"--n_layer={LAYERS}", f"--n_head={HEADS}", f"--n_embd={WIDTH}", f"--max_iters={WARM_UP + STEPS}",
                    "--eval_interval=100000", "--eval_iters=1", "--sample=0", "--out_dir=", "--decay_lr=False", f"--metrics={metrics}"],
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


def pytorch(compiled):
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "parity"))
    import torch

    import bench_reference
    import reference

    bench_reference.configure(MODEL, "fused")
    torch.manual_seed(1337)
    data = torch.tensor(tokens().tolist())
    model = reference.GPT(VOCABULARY)
    reference.initialise(model, "fsdp", 1337)
    model.to(DEVICE)
    step = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    times, losses = [], []
    for _ in range(WARM_UP + STEPS):
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
    if on_gpu and not compiled:
        found["limits"] = limits(torch)
    return times, losses, peak, found


def main():
    who = sys.argv[1]
    times, losses, peak, found = ours() if who == "ours" else pytorch(who == "compile")
    ms = statistics.median(times[WARM_UP:])
    # nanoGPT's count of operations for a token: 6 for each parameter but positions, and attention.
    parameters = WIDTH * VOCABULARY + LAYERS * (12 * WIDTH + 2) * WIDTH + WIDTH
    operations = 6 * parameters + 12 * LAYERS * WIDTH * CONTEXT
    per_second = 1e3 * ROWS * CONTEXT / ms
    found.update({"ms": ms, "fastest": min(times[WARM_UP:]), "slowest": max(times[WARM_UP:]),
                  "tokens_per_s": per_second, "tflops": 1e-12 * operations * per_second, "peak_bytes": peak,
                  "first_loss": losses[0], "last_loss": losses[-1], "model": MODEL})
    (WORK / f"speed_{who}.json").write_text(json.dumps(found))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
