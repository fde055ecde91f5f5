"""`make exchange`: weights from here to PyTorch and back; the same logits, the same greedy texts.

Trains small models, loads their files into nanoGPT in PyTorch (load_state_dict), and compares the
logits of a random text; then the same with random models of PyTorch's, in the files of Hugging
Face's GPT-2 and of nanoGPT's own layout. Logits are compared with PyTorch's in float64, and told in
units of the largest, if that is above 1: float32 has seven digits; beside them stands how far
PyTorch's own float32 is from that truth. A greedy text of nanofsdp's (--top_k=1), longer than the
context, must take PyTorch's likeliest token wherever that is ahead of the next by more than 1e-4.
"""

import argparse
import json
import pathlib
import subprocess
import sys

try:
    import torch

    import gpt2
except ImportError as error:
    sys.exit(f"exchange: {error}; PYTHON=... names an interpreter that has PyTorch")

TOLERANCE, AHEAD, LENGTH = 1e-5, 1e-4, 100


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"exchange: {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def difference(args, folder, model, vocabulary):
    """Of our logits from the truth, and of PyTorch's, for one text as long as the context."""
    tokens = torch.randint(vocabulary, (1, gpt2.reference.CONTEXT))
    ours = [[float(x) for x in line.split()]
            for line in run(args.print_logits, folder, *tokens[0].tolist()).splitlines()]
    with torch.no_grad():
        single = model(tokens)[0]
        truth = model.double()(tokens)[0]
        model.float()
    scale = max(1.0, truth.abs().max().item())
    return [(x.double() - truth).abs().max().item() / scale for x in (torch.tensor(ours), single)]


def wrong_tokens(model, tokens, given):
    """Of a greedy text, those that are not the likeliest by far, and how many were not clear."""
    wrong = unclear = 0
    for i in range(given, len(tokens)):
        logits = model.last_logits(tokens[:i])
        best = logits.topk(2).values
        clear = (best[0] - best[1]).item() > AHEAD
        unclear += not clear
        wrong += clear and tokens[i] != logits.argmax().item()
    return wrong, unclear


def ours_to_pytorch(args, bias):
    folder = args.out / f"trained_bias_{bias}"
    run(args.binary, "train", "--ranks=2", "--max_iters=60", "--eval_interval=60", "--eval_iters=1", "--n_layer=3",
        "--n_head=4", "--n_embd=64", "--block_size=32", f"--bias={bias}", f"--out_dir={folder}")
    state, metadata = gpt2.load(folder / "model.safetensors")
    alphabet = json.loads(metadata["nanofsdp"])["chars"]
    gpt2.resize(layers=3, heads=4, width=64, context=32, bias=bias)
    model = gpt2.NanoGPT(len(alphabet))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    text = run(args.binary, "sample", f"--out_dir={folder}", "--ranks=2", "--top_k=1", f"--max_new_tokens={LENGTH}")
    text = text[: text.rindex("\n---------------\n")]
    return difference(args, folder, model, len(alphabet)), *wrong_tokens(model, [alphabet.index(c) for c in text], 1)


def pytorch_to_ours(args, layout, bias):
    folder = args.out / f"{layout}_bias_{bias}"
    gpt2.resize(layers=3, heads=2, width=48, context=24, bias=bias)
    model = gpt2.NanoGPT(300)
    gpt2.randomise(model, 7)
    gpt2.write_directory(folder, model)
    if layout == "nanogpt":
        gpt2.save(folder / "model.safetensors", model.state_dict())
    text = run(args.binary, "sample", "--init_from=gpt2", f"--pretrained={folder}", "--start=TOKENS:299 7",
               "--top_k=1", f"--max_new_tokens={LENGTH}")
    tokens = [int(word) for word in text.split()[:-1]]
    return difference(args, folder, model, 300), *wrong_tokens(model, tokens, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--print_logits", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(1)
    args.out.mkdir(parents=True, exist_ok=True)
    print(f"exchange: PyTorch {torch.__version__}; allowed: logits {TOLERANCE} away, no wrong token")
    failed = False
    for label, outcome in (
        ("trained here, read by PyTorch", lambda bias: ours_to_pytorch(args, bias)),
        ("PyTorch's, as Hugging Face has GPT-2", lambda bias: pytorch_to_ours(args, "hugging_face", bias)),
        ("PyTorch's, as nanoGPT has it", lambda bias: pytorch_to_ours(args, "nanogpt", bias))):
        for bias in (False, True):
            (logits, theirs), wrong, unclear = outcome(bias)
            failed |= logits > TOLERANCE or wrong > 0
            print(f"  {label}, bias={bias}: logits are {logits:.1e} away (PyTorch's {theirs:.1e}), "
                  f"{wrong} of {LENGTH} greedy tokens are wrong, {unclear} were a close call", flush=True)
    if failed:
        sys.exit("exchange: outside what is allowed")


if __name__ == "__main__":
    main()
