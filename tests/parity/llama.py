"""`make llama`: lesson 22's Llama beside PyTorch's: gradients, 100 steps, files, greedy tokens, LoRA.

The Llama below is plain PyTorch with Hugging Face's names. Its truth is computed in float64 from the
float32 weights that both sides begin with; beside our distance from it stands that of PyTorch's own
float32. print_llama runs ours, on 1 rank and on 3. `llama.py --golden` writes golden/llama.txt.
"""

import argparse
import json
import pathlib
import subprocess
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F

    import gpt2
except ImportError as error:
    sys.exit(f"llama: {error}; PYTHON=... names an interpreter that has PyTorch")

CONFIG = {"vocab_size": 61, "hidden_size": 48, "intermediate_size": 128, "num_hidden_layers": 3,
          "num_attention_heads": 6, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
TINY = {"vocab_size": 11, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
LORA = {"rank": 4, "alpha": 8.0}
BETAS, DECAY, CLIP = (0.9, 0.95), 0.1, 1.0
CALM = 3e-4  # a learning rate with which rounding errors do not grow
GRADIENTS, LOSSES, GREEDY = 2e-6, 1e-6, 60  # allowed, allowed, tokens
PROMPT = [5, 1, 7]


class RMSNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(c["hidden_size"])), c["rms_norm_eps"]

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class LoraLinear(nn.Module):
    def __init__(self, inside, out, lora):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, inside), requires_grad=False)
        self.lora_A = nn.Linear(inside, lora["rank"], bias=False)
        self.lora_B = nn.Linear(lora["rank"], out, bias=False)
        self.scale = lora["alpha"] / lora["rank"]

    def forward(self, x):
        return F.linear(x, self.weight) + self.scale * self.lora_B(self.lora_A(x))


def rotate(x, theta):
    """Rotary positions of [B, heads, T, D], halves rotated."""
    T, D = x.shape[2:]
    angles = torch.arange(T, dtype=torch.float64)[:, None] * theta ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    cos, sin = (torch.cat([table, table], 1).to(x.dtype) for table in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Attention(nn.Module):
    def __init__(self, c, lora):
        super().__init__()
        self.heads, self.kv_heads, self.theta = c["num_attention_heads"], c["num_key_value_heads"], c["rope_theta"]
        width = c["hidden_size"]
        kv = width // self.heads * self.kv_heads
        adapted = (lambda i, o: LoraLinear(i, o, lora)) if lora else (lambda i, o: nn.Linear(i, o, bias=False))
        self.q_proj, self.k_proj = adapted(width, width), nn.Linear(width, kv, bias=False)
        self.v_proj, self.o_proj = adapted(width, kv), nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (p(x).view(B, T, h, -1).transpose(1, 2) for p, h in (
            (self.q_proj, self.heads), (self.k_proj, self.kv_heads), (self.v_proj, self.kv_heads)))
        q, k = rotate(q, self.theta), rotate(k, self.theta)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        scores = q @ k.transpose(2, 3) / (C // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), -torch.inf)
        return self.o_proj((scores.softmax(3) @ v).transpose(1, 2).reshape(B, T, C))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj, self.up_proj = (
            nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False) for _ in range(2))
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c, lora):
        super().__init__()
        self.self_attn, self.mlp = Attention(c, lora), MLP(c)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(c), RMSNorm(c)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Every weight is random; so are the gains of the norms, beside 1."""

    def __init__(self, c, seed, lora=None, std=0.1):
        super().__init__()
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(c["vocab_size"], c["hidden_size"]),
            "layers": nn.ModuleList([Layer(c, lora) for _ in range(c["num_hidden_layers"])]), "norm": RMSNorm(c)})
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        torch.manual_seed(seed)
        for name, p in self.named_parameters():
            nn.init.normal_(p, 1.0 if "norm" in name else 0.0, std)
            p.requires_grad = not lora or ".lora_" in name

    def forward(self, tokens):
        x = self.model["embed_tokens"](tokens)
        for layer in self.model["layers"]:
            x = layer(x)
        return self.lm_head(self.model["norm"](x))

    def loss(self, rows):
        """Of rows [B, T + 1]: all tokens but the last, and what comes after each."""
        return F.cross_entropy(self(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def gradients(model, rows):
    model.zero_grad()
    model.loss(rows).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


def train(model, batches, lr):
    """AdamW as nanofsdp has it: matrices decay, the gradient's norm is clipped."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=BETAS)
    losses = []
    for rows in batches:
        optimizer.zero_grad()
        loss = model.loss(rows)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses


def batches_of(c, steps, rows, T):
    """An invented language: what lesson 22 and its tests count up in C++ too."""
    batches = torch.empty(steps, rows, T + 1, dtype=torch.long)
    for step in range(steps):
        for row in range(rows):
            at = 3 * (rows * step + row) + torch.arange(T + 1)
            batches[step, row] = (at * at + row) % c["vocab_size"]
    return batches


def golden():
    """Of the tiny Llama: each gradient's norm and its product with cos(1), cos(2) ..., and losses."""
    print(f"# float64 PyTorch {torch.__version__}, written by llama.py --golden: a gradient's norm, and its product")
    print("# with (cos 1, cos 2, ...); losses of steps with AdamW, of all parameters and of adapters alone")
    batches = batches_of(TINY, 10, 6, 8)
    for name, g in gradients(Llama(TINY, 1337, std=0.3).double(), batches[0]).items():
        along = g.flatten() @ torch.arange(1, g.numel() + 1, dtype=torch.float64).cos()
        print(f"gradient {name} {g.norm():.9g} {along:.9g}")
    for kind, lora in (("losses", None), ("lora_losses", LORA)):
        losses = train(Llama(TINY, 1337, lora, std=0.3).double(), batches, 1e-3)
        print(kind, " ".join(f"{loss:.9g}" for loss in losses))


def run_ours(args, name, model, c, batches, ranks, lora=False):
    """Writes the directory that print_llama reads, and returns what it prints."""
    folder = args.out / name
    folder.mkdir(parents=True, exist_ok=True)
    gpt2.save(folder / "model.safetensors", {key: value.detach() for key, value in model.state_dict().items()})
    (folder / "run.json").write_text(json.dumps({
        "config": c, "batches": batches.tolist(), "lora": lora, "lr": CALM, "prompt": PROMPT, "write": GREEDY}))
    done = subprocess.run([args.print_llama, folder, str(ranks)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"llama: print_llama ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def farthest_gradient(ours, truth):
    """Of a parameter's gradient from the truth, as a whole: relative to the truth's norm."""
    assert ours.keys() == truth.keys(), ours.keys() ^ truth.keys()
    return max(((torch.as_tensor(ours[name]).double().flatten() - g.flatten()).norm() / g.norm()).item()
               for name, g in truth.items())


def farthest_loss(ours, truth):
    assert len(ours) == len(truth)
    return max(abs(a / b - 1) for a, b in zip(ours, truth))


@torch.no_grad()
def wrong_tokens(model, tokens):
    """Of a greedy text, those that are not the likeliest, and how near the second was at least."""
    wrong, nearest = 0, float("inf")
    for i in range(len(PROMPT), len(tokens)):
        best = model(torch.tensor([tokens[:i]]))[0, -1].topk(2)
        nearest = min(nearest, (best.values[0] - best.values[1]).item())
        wrong += best.indices[0].item() != tokens[i]
    return wrong, nearest


def compare(args, kind, lora):
    """Lines of the report, and whether all is within what is allowed."""
    def fresh():
        return Llama(CONFIG, 7, lora)

    batches = batches_of(CONFIG, 20 if lora else 100, 6, 32)
    truth, losses = gradients(fresh().double(), batches[0]), train(fresh().double(), batches, CALM)
    theirs = (farthest_gradient(gradients(fresh(), batches[0]), truth),
              farthest_loss(train(fresh(), batches, CALM), losses))
    good = True
    for ranks in (1, 3):
        ours = run_ours(args, f"{kind}_{ranks}", fresh(), CONFIG, batches, ranks, bool(lora))
        gradient, loss = farthest_gradient(ours["gradients"], truth), farthest_loss(ours["losses"], losses)
        wrong, nearest = wrong_tokens(fresh().double(), ours["tokens"])
        good &= gradient <= GRADIENTS and loss <= LOSSES and wrong == 0
        print(f"  {kind}, ranks: {ranks}\n"
              f"    gradients {gradient:.1e} away (PyTorch's float32 {theirs[0]:.1e})\n"
              f"    {len(losses)} losses, {losses[0]:.4f} to {losses[-1]:.4f}, {loss:.1e} away ({theirs[1]:.1e})\n"
              f"    {wrong} of {GREEDY} greedy tokens wrong (the second was {nearest:.1e} behind at least)", flush=True)
    return good


def main():
    if sys.argv[1:] == ["--golden"]:
        return golden()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print_llama", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    print(f"llama: PyTorch {torch.__version__} in float64; allowed away: gradients {GRADIENTS} of their norm, "
          f"losses {LOSSES}, no token")
    if not all([compare(args, "all parameters", None), compare(args, "adapters", LORA)]):
        sys.exit("llama: outside what is allowed")


if __name__ == "__main__":
    main()
