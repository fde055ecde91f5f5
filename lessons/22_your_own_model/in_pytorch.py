"""The lines of lesson 22 in PyTorch, on 4 ranks."""

from prelude import *

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests/parity"))
from llama import Llama

CONFIG = {"vocab_size": 52, "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}


def new_model():
    model = Llama(CONFIG, 1337)
    torch.manual_seed(1337)
    for name, p in model.named_parameters():
        nn.init.ones_(p) if "norm" in name else nn.init.normal_(p, std=0.02)
    model.layers = model.model["layers"]
    return model


def compare_step(start, model, optimizer):
    """Compares a step with a line of the page: the bytes of rank 0, and what it sends. Returns the loss."""
    seen.calls.clear()
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    bytes_kept, bytes_sent, scatters = page(start)[:3], *page(start)[3:]
    for what, ours, measure in zip(("parameters", "gradients", "optimizer"), bytes_kept,
                                   (parameters_of(model), gradients_of(model), moments_of(optimizer))):
        compare(f"{start}: {what}", ours, measure)
    compare(f"{start}: to send", bytes_sent, seen.sent())
    compare(f"{start}: reduce-scatters", scatters, seen.count("reduce-scatter"))
    return loss


torch.manual_seed(0)  # as the lesson, for its first step
x, y = next_batch()
model = new_model()
for module in [*model.layers, model]:
    fully_shard(module, mesh=mesh)
loss = compare_step("all train", model, torch.optim.AdamW(model.parameters()))
compare("all, step 1: loss", page("all, 3 ranks")[0], average(loss))
model = new_model()

#! [lines]
class Lora(nn.Module):
    def __init__(self, base, width=4, alpha=8):
        super().__init__()
        self.base, self.scale = base, alpha / width
        self.lora_A = nn.Linear(base.in_features, width, bias=False)
        self.lora_B = nn.Linear(width, base.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)
    def forward(self, x): return self.base(x) + self.scale * self.lora_B(self.lora_A(x))
model.requires_grad_(False)
for attention in (layer.self_attn for layer in model.layers):
    attention.q_proj, attention.v_proj = Lora(attention.q_proj), Lora(attention.v_proj)
for module in [*model.layers, model]: fully_shard(module, mesh=mesh)
optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
#! [lines]

trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
compare("parameters in adapters", page("parameters in adapters")[0], trained)
compare_step("adapters train", model, optimizer)
finish()
