"""nanoGPT in PyTorch, as small as it goes: the other side of `make parity`.

nanoGPT's model (model.py) and the training loop of its train.py for its CPU recipe on characters,
in our own words: same draws from the same generator, same batches, same AdamW, clipping and
schedule. One process, DDP or FSDP2 (fully_shard) over Gloo, or NCCL on a GPU. Writes a JSON object
a step: iter, loss (mean over all ranks), grad_norm (before clipping), lr, ms.

    python3 reference.py --text=input.txt --metrics=single.jsonl
    python3 reference.py --text=input.txt --metrics=fsdp2.jsonl --how=fsdp2 --ranks=2
"""

import argparse
import json
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, ROWS, BIAS = 4, 4, 128, 64, 12, False
PEAK_LR, LAST_LR, WARMUP, DECAY_STEPS = 1e-3, 1e-4, 100, 2000
BETAS, WEIGHT_DECAY, CLIP, STD = (0.9, 0.99), 0.1, 1.0, 0.02


class LayerNorm(nn.Module):  # nn.LayerNorm without a bias is missing from PyTorch 1.13
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.bias = nn.Parameter(torch.zeros(WIDTH)) if BIAS else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=BIAS)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=BIAS)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, HEADS, C // HEADS).transpose(1, 2) for t in self.c_attn(x).split(C, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(C // HEADS)
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), -math.inf)
        return self.c_proj((scores.softmax(3) @ v).transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH, bias=BIAS)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH, bias=BIAS)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = LayerNorm(), Attention(), LayerNorm(), MLP()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.ln_f = LayerNorm()
        self.lm_head = nn.Linear(WIDTH, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight  # tied

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return F.cross_entropy(self.lm_head(self.ln_f(x)).flatten(0, 1), targets.flatten())


def initialise(model, order, seed):
    """Draws what nanoGPT's constructor draws after the layers' own, or FSDP's deferred init."""
    layers = [(b.attn.c_attn, b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj) for b in model.h]
    if order == "nanogpt":  # apply(_init_weights); the tied matrix twice; then each c_proj, scaled
        draws = [(m, STD) for m in (model.wte, model.wpe, *sum(layers, ()), model.lm_head)]
        draws += [(m, STD / math.sqrt(2 * LAYERS)) for four in layers for m in (four[1], four[3])]
    else:  # built without draws; unit by unit, the root last, each breadth-first
        torch.manual_seed(seed)
        draws = [(m, STD) for m in (*sum(layers, ()), model.lm_head, model.wte, model.wpe)]
    with torch.no_grad():
        for module, std in draws:
            module.weight.normal_(0, std)
        for module in sum(layers, ()):
            if module.bias is not None:
                module.bias.zero_()


def read_text(path):
    """nanoGPT's prepare.py for characters: ids in code order, the first nine tenths to train on."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    ids = {c: i for i, c in enumerate(sorted(set(text)))}
    return torch.tensor([ids[c] for c in text[: int(0.9 * len(text))]]), len(ids)


def batch(data, rank, ranks, device="cpu"):
    """This rank's rows of the next batch; every rank draws all of it, on the CPU."""
    starts = torch.randint(len(data) - CONTEXT, (ROWS,)).chunk(ranks)[rank]
    return tuple(torch.stack([data[s + d : s + d + CONTEXT] for s in starts]).to(device) for d in (0, 1))


def learning_rate(step):
    if step < WARMUP:
        return PEAK_LR * (step + 1) / (WARMUP + 1)
    cosine = math.cos(math.pi * (step - WARMUP) / (DECAY_STEPS - WARMUP))
    return LAST_LR + 0.5 * (1 + cosine) * (PEAK_LR - LAST_LR)


def averages_wrongly(ranks):
    """pytorch#162338: some releases sum where FSDP2 over Gloo asks for the average."""
    if dist.get_backend() != "gloo":
        return False
    out = torch.zeros(1)
    dist.reduce_scatter_tensor(out, torch.ones(ranks), op=dist.ReduceOp.AVG)
    return out.item() != 1.0


def train(args, rank=0, ranks=1):
    """Trains; yields the record of each step."""
    torch.manual_seed(args.seed)
    data, vocabulary = read_text(args.text)
    model = GPT(vocabulary)
    initialise(model, args.init_order, args.seed)
    model.to(args.device, getattr(torch, args.dtype))
    wrapped, divisor = model, 1
    if args.how == "ddp":
        wrapped = nn.parallel.DistributedDataParallel(model)
    elif args.how == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(args.device, (ranks,))
        for module in (*model.h, model):
            fully_shard(module, mesh=mesh)
        if averages_wrongly(ranks):
            divisor = ranks
            if rank == 0:
                print("note: this PyTorch sums FSDP2's gradients over Gloo (pytorch#162338); divided here")
    groups = [[p for p in model.parameters() if (p.dim() >= 2) == matrix] for matrix in (True, False)]
    optimizer = torch.optim.AdamW(
        [{"params": groups[0], "weight_decay": WEIGHT_DECAY}, {"params": groups[1], "weight_decay": 0.0}],
        lr=PEAK_LR, betas=BETAS)

    next_batch = batch(data, rank, ranks, args.device)
    for step in range(args.max_iters):
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.autocast):
            loss = wrapped(*next_batch)
        next_batch = batch(data, rank, ranks, args.device)
        loss.backward()
        if divisor > 1:
            for parameter in model.parameters():
                parameter.grad /= divisor
        norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds = time.perf_counter() - start
        mean = loss.detach().clone()
        if ranks > 1:
            dist.all_reduce(mean)
            mean /= ranks
        yield {"iter": step, "loss": mean.item(), "grad_norm": norm.item(), "lr": learning_rate(step),
               "ms": 1e3 * seconds}


def run_rank(rank, args):
    torch.set_num_threads(args.threads)
    if args.how != "single":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port), RANK=str(rank),
                          WORLD_SIZE=str(args.ranks), GLOO_SOCKET_IFNAME="lo")
        os.environ.setdefault("NCCL_HOSTID", f"rank{rank}")  # so that ranks may share a GPU
        dist.init_process_group("gloo" if args.device == "cpu" else "nccl")
    with open(args.metrics if rank == 0 else os.devnull, "w") as file:
        for record in train(args, rank, args.ranks):
            print(json.dumps(record), file=file, flush=True)
    if args.how != "single":
        dist.destroy_process_group()


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--metrics", default="metrics.jsonl")
    parser.add_argument("--how", choices=("single", "ddp", "fsdp2"), default="single")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=29517)
    parser.add_argument("--max_iters", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--init_order", choices=("nanogpt", "fsdp"), default="nanogpt")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--autocast", action="store_true", help="compute in bfloat16 where autocast does")
    return parser.parse_args(words)


if __name__ == "__main__":
    arguments = parse()
    if arguments.how == "single":
        run_rank(0, arguments)
    else:
        torch.multiprocessing.spawn(run_rank, (arguments,), nprocs=arguments.ranks)
