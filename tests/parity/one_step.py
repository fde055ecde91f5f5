"""Writes one_step.txt: a small GPT in float64, one forward and one backward, by PyTorch.

Weights are float32 numbers, so both sides start from exactly the same ones; everything else is
computed in float64: a truth that belongs to no BLAS. Run: python3 one_step.py > one_step.txt
"""

import math
import sys

import numpy
import torch
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, BATCH = 2, 2, 8, 8, 13, 4


def shapes():
    yield "transformer.wte.weight", (VOCABULARY, WIDTH)
    yield "transformer.wpe.weight", (CONTEXT, WIDTH)
    for i in range(LAYERS):
        h = f"transformer.h.{i}."
        for layer, out, inside in (
            ("ln_1", WIDTH, None),
            ("attn.c_attn", 3 * WIDTH, WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("ln_2", WIDTH, None),
            ("mlp.c_fc", 4 * WIDTH, WIDTH),
            ("mlp.c_proj", WIDTH, 4 * WIDTH),
        ):
            yield h + layer + ".weight", (out,) if inside is None else (out, inside)
            yield h + layer + ".bias", (out,)
    yield "transformer.ln_f.weight", (WIDTH,)
    yield "transformer.ln_f.bias", (WIDTH,)


def forward(p, tokens):
    def norm(name, x):
        return F.layer_norm(x, (WIDTH,), p[name + ".weight"], p[name + ".bias"], 1e-5)

    def linear(name, x):
        return x @ p[name + ".weight"].T + p[name + ".bias"]

    B, T = tokens.shape
    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][:T]
    for i in range(LAYERS):
        h = f"transformer.h.{i}."
        q, k, v = linear(h + "attn.c_attn", norm(h + "ln_1", x)).split(WIDTH, dim=2)
        q, k, v = (t.view(B, T, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
        y = (scores.softmax(3) @ v).transpose(1, 2).reshape(B, T, WIDTH)
        x = x + linear(h + "attn.c_proj", y)
        x = x + linear(h + "mlp.c_proj", F.gelu(linear(h + "mlp.c_fc", norm(h + "ln_2", x))))
    return norm("transformer.ln_f", x) @ p["transformer.wte.weight"].T


def write(kind, name, values):
    flat = " ".join(f"{v:.9g}" for v in values.reshape(-1).tolist())
    print(kind, name, values.numel(), flat)


random = numpy.random.RandomState(1337)
parameters = {}
for name, shape in shapes():
    centre = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
    values = (centre + random.normal(0, 0.3, shape)).astype(numpy.float32)
    parameters[name] = torch.tensor(values, dtype=torch.float64, requires_grad=True)
tokens = torch.tensor(random.randint(0, VOCABULARY, (BATCH, CONTEXT)))
targets = torch.tensor(random.randint(0, VOCABULARY, (BATCH, CONTEXT)))

logits = forward(parameters, tokens)
loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))
loss.backward()

print(f"# float64 PyTorch {torch.__version__}, rounded to 9 digits; written by one_step.py")
print(f"config layers={LAYERS} heads={HEADS} width={WIDTH} context={CONTEXT} "
      f"vocabulary={VOCABULARY} batch={BATCH}")
write("input", "tokens", tokens)
write("input", "targets", targets)
for name, value in parameters.items():
    write("weight", name, value.detach())
write("output", "logits", logits.detach())
write("output", "loss", loss.detach())
for name, value in parameters.items():
    write("gradient", name, value.grad)
print("end", file=sys.stdout)
