"""GPT-2 in nanoGPT's form, its files, and the small one that the tests have in gpt2/.

    python3 gpt2.py        writes gpt2/: model.safetensors, config.json and vocab.json as Hugging Face
                           has GPT-2, but small and random; expected.txt: what PyTorch makes of it

The model has nanoGPT's names, so that load_state_dict() takes what nanofsdp saves; the layers are
those of reference.py.
"""

import json
import pathlib
import struct

import numpy
import torch
from torch import nn

import reference

HERE = pathlib.Path(__file__).parent / "gpt2"
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def resize(layers, heads, width, context, bias):
    """The size of models that are made from now on."""
    reference.LAYERS, reference.HEADS, reference.WIDTH = layers, heads, width
    reference.CONTEXT, reference.BIAS = context, bias


class NanoGPT(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, reference.WIDTH),
            "wpe": nn.Embedding(reference.CONTEXT, reference.WIDTH),
            "h": nn.ModuleList([reference.Block() for _ in range(reference.LAYERS)]),
            "ln_f": reference.LayerNorm()})
        self.lm_head = nn.Linear(reference.WIDTH, vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight  # tied

    def forward(self, tokens):
        t = self.transformer
        x = t.wte(tokens) + t.wpe(torch.arange(tokens.shape[1]))
        for block in t.h:
            x = block(x)
        return self.lm_head(t.ln_f(x))

    @torch.no_grad()
    def last_logits(self, tokens):
        """Of the token after `tokens`, which may be more than fit."""
        return self(torch.tensor([tokens[-reference.CONTEXT:]]))[0, -1]


def randomise(model, seed):
    """Values large enough that every layer matters: biases, and gains beside 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            centre = 1.0 if ".ln_" in name and name.endswith("weight") else 0.0
            std = 1.0 if "wpe" in name else 0.3  # a text must not repeat itself
            p.copy_(centre + std * torch.randn(p.shape, generator=generator))


def as_hugging_face(model):
    """The state under GPT-2's names, without a prefix, matrices [in, out], with the causal masks."""
    mask = torch.ones(reference.CONTEXT, reference.CONTEXT).tril()[None, None]
    state = {}
    for name, value in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        name = name[len("transformer."):]
        state[name] = value.T if name.endswith(CONV1D) else value
        if name.endswith("attn.c_attn.weight"):
            state[name.replace("c_attn.weight", "bias")] = mask
    return state


def save(path, state):
    """A safetensors file of float32."""
    header, data = {}, b""
    for name, value in sorted(state.items()):
        raw = value.contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path):
    """The tensors of a safetensors file of float32, and its metadata."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", {})
    state = {}
    for name, entry in header.items():
        begin, end = (8 + size + at for at in entry["data_offsets"])
        values = numpy.frombuffer(raw[begin:end], dtype="<f4").copy()
        state[name] = torch.from_numpy(values).reshape(entry["shape"])
    return state, metadata


def write_directory(folder, model, vocabulary=None):
    """As Hugging Face has GPT-2."""
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "model.safetensors", as_hugging_face(model))
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_head": reference.HEADS}) + "\n")
    if vocabulary:
        pieces = {piece: token for token, piece in enumerate(vocabulary)}
        (folder / "vocab.json").write_text(json.dumps(pieces) + "\n")


def small_vocabulary():
    """GPT-2's 256 letters of bytes in its order, a few pieces, and the end of a text."""
    printing = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    letters = [chr(b) for b in printing] + [chr(0x100 + i) for i in range(256 - len(printing))]
    return [*letters, "\u0120t", "he", "in", "\u0120the", "\u00c3\u00a9", "ing", "\u0120owl", "<|endoftext|>"]


def greedy(model, tokens, count):
    """Adds the likeliest token `count` times; says how far ahead of the next it was, at least."""
    tokens, closest = list(tokens), float("inf")
    for _ in range(count):
        best = model.last_logits(tokens).topk(2)
        closest = min(closest, (best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
    return tokens, closest


def main():
    vocabulary = small_vocabulary()
    resize(layers=2, heads=2, width=8, context=16, bias=True)
    model = NanoGPT(len(vocabulary))
    randomise(model, 1337)
    write_directory(HERE, model, vocabulary)
    model.double()
    tokens = [(i * 37 + 11) % len(vocabulary) for i in range(16)]
    logits = model(torch.tensor([tokens]))[0].detach()
    lines = [f"# float64 PyTorch {torch.__version__}, written by gpt2.py", "tokens " + " ".join(map(str, tokens))]
    for position in (0, 7, 15):
        lines.append(f"logits {position} " + " ".join(f"{v:.7g}" for v in logits[position].tolist()))
    text, closest = greedy(model, [len(vocabulary) - 1], 40)
    assert closest > 1e-4, closest
    lines.append("greedy " + " ".join(map(str, text)))
    (HERE / "expected.txt").write_text("\n".join(lines) + "\n")
    print(f"wrote {HERE}; the likeliest token was ahead of the next by {closest:.1e} at least")


if __name__ == "__main__":
    main()
