"""The lessons' GPT in PyTorch: nanoGPT's model, without biases, its head tied to the token table."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k, v = self.c_attn(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.c_proj = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width, bias=False), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width, bias=False), MLP(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Tokens [rows, context] become logits [rows, context, vocabulary]."""

    def __init__(self, vocabulary=52, layers=4, width=128, context=64, heads=4):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.layers = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.head.weight
        if self.head.weight.device.type != "meta":
            self.init_weights()

    def init_weights(self):
        """Draws in nanoGPT's order: the tied matrix twice, then each c_proj again with a smaller width."""
        blocks = [(b.attn.c_attn, b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj) for b in self.layers]
        draws = [(m, 0.02) for m in (self.wte, self.wpe, *sum(blocks, ()), self.head)]
        draws += [(m, 0.02 / math.sqrt(2 * len(blocks))) for b in blocks for m in (b[1], b[3])]
        for module, std in draws:
            nn.init.normal_(module.weight, std=std)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                nn.init.ones_(module.weight)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x))


def loss_of(logits, targets):
    """The mean cross entropy of the tokens."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
