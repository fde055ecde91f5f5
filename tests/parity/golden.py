"""Writes golden/: what PyTorch says, for tests that run where there is no PyTorch.

    python3 golden.py --shakespeare=input.txt --tales=tales.txt

rng.txt        one generator's calls in order, with every value to the bit
init.txt       SHA-256 of all weights of four models in both orders of initialisation
batches.txt    where the first batches of tiny Shakespeare begin
one_step.txt   a small GPT in float64, one forward and one backward (one_step.py)
llama.txt      lesson 22's Llama in float64: gradients, and losses of a few steps (llama.py)
float8.txt     float8_e4m3fn of every bfloat16, and float32 of every float8_e4m3fn
fsdp2_shards.txt  what each rank holds of many shapes under fully_shard (golden_shards.py)
curve_*.txt    loss and gradient norm before clipping of every step, computed in float64 from the
               float32 weights: a truth that belongs to no BLAS
manifest.json  what each file is, which PyTorch wrote it, its SHA-256

Weights, batches and random numbers depend on PyTorch's CPU generator on x86 with AVX2.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys

import numpy
import torch

import reference

HERE = pathlib.Path(__file__).parent / "golden"


def bits(x):
    """Values of a tensor as text that keeps every bit."""
    if x.dtype == torch.float32:
        return " ".join(f"{v:08x}" for v in x.detach().numpy().view(numpy.uint32).reshape(-1))
    return " ".join(str(v) for v in x.reshape(-1).tolist())


def sha256(*tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().numpy().tobytes())
    return digest.hexdigest()


def rng_lines():
    """One call a line, `call arguments = values`; the stream goes on from line to line."""
    for seed in (0, 1337, 2**32 + 5, -1):
        torch.manual_seed(seed)
        words = numpy.random.RandomState(seed % 2**32).randint(0, 2**32, 1249, dtype=numpy.uint32)
        yield f"seed {seed % 2**64} ="
        for at in (*range(8), 623, 624, 625, 1248):
            yield f"word {at} = {words[at]:08x}"
        yield f"uniform 0 1 8 = {bits(torch.rand(8))}"
        yield f"uniform -0.25 0.5 9 = {bits(torch.empty(9).uniform_(-0.25, 0.5))}"
        for n in (1, 2, 3, 5, 15, 16, 17, 31, 32, 33, 100):
            yield f"normal 0 0.02 {n} = {bits(torch.empty(n).normal_(0, 0.02))}"
            yield f"uniform 0 1 2 = {bits(torch.rand(2))}"  # so as many words were taken
        for n in (3, 4, 20, 2):  # the second half of a pair is kept over other calls
            yield f"normal 1 2 {n} = {bits(torch.empty(n).normal_(1, 2))}"
        linear = torch.nn.Linear(384, 2, bias=False)
        yield f"kaiming 384 768 = {sha256(linear.weight)}"
        for high in (1, 10, 1003790, 2**28 - 1, 9035581174):
            yield f"randint {high} 8 = {bits(torch.randint(high, (8,)))}"
        torch.randperm(16), torch.empty(32).bernoulli_(0.8)  # not ours: 15 words and 64
        yield "discard 79 ="
        yield f"exponential 8 = {bits(torch.empty(8).exponential_(1))}"
        weights = torch.tensor([0.5, 0.25, 0.125, 0.125])
        drawn = torch.cat([torch.multinomial(weights, 1) for _ in range(16)])
        yield f"multinomial 16 = {bits(drawn)}"
        yield f"normal_hash 0 1 1000003 = {sha256(torch.empty(1000003).normal_(0, 1))}"


def init_lines():
    """`layers heads width context vocabulary bias order = hash`, in named_parameters() order."""
    for layers, heads, width, context, vocabulary, bias in (
        (4, 4, 128, 64, 65, 0), (4, 4, 128, 64, 65, 1), (6, 6, 384, 256, 65, 0), (2, 1, 5, 7, 13, 1)):
        reference.LAYERS, reference.HEADS, reference.WIDTH, reference.CONTEXT, reference.BIAS = (
            layers, heads, width, context, bool(bias))
        for order in ("nanogpt", "fsdp"):
            torch.manual_seed(1337)
            model = reference.GPT(vocabulary)
            reference.initialise(model, order, 1337)
            yield (f"{layers} {heads} {width} {context} {vocabulary} {bias} {order} = "
                   f"{sha256(*model.parameters())}")


def batch_lines(text):
    torch.manual_seed(1337)
    data, vocabulary = reference.read_text(text)
    reference.initialise(reference.GPT(vocabulary), "nanogpt", 1337)
    yield f"tokens {len(data)} {hashlib.sha256(data.numpy().astype('<u2').tobytes()).hexdigest()}"
    for _ in range(3):
        starts = torch.randint(len(data) - reference.CONTEXT, (reference.ROWS,))
        yield "starts " + bits(starts)
        yield "first_row " + bits(data[starts[0] : starts[0] + reference.CONTEXT])


def float8_lines():
    """A line for each run of bfloat16 numbers that are rounded alike: `first code value`, in hex."""
    numbers = torch.arange(2**16).to(torch.uint16).view(torch.bfloat16)
    plain = numbers.to(torch.float8_e4m3fn)  # it gives NaN beyond 464; ours is the largest value there
    # A clamp would change the sign of NaN.
    rounded = torch.where(numbers.isnan(), numbers, numbers.clamp(-448, 448)).to(torch.float8_e4m3fn)
    codes = rounded.view(torch.uint8)
    same = ~(numbers.abs() > 464)
    assert torch.equal(codes[same], plain.view(torch.uint8)[same])
    for at in range(2**16):
        if at == 0 or codes[at] != codes[at - 1]:
            yield f"{at:04x} {codes[at]:02x} {bits(rounded[at].float())}"


def curve_lines(text, order, steps):
    yield "# step loss grad_norm"
    arguments = reference.parse([f"--text={text}", f"--init_order={order}", f"--max_iters={steps}",
                                 "--dtype=float64"])
    for record in reference.train(arguments):
        yield f"{record['iter'] + 1} {record['loss']:.10g} {record['grad_norm']:.10g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shakespeare", required=True, help="tiny Shakespeare")
    parser.add_argument("--tales", required=True, help="the embedded corpus, from build/.../print_tales")
    parser.add_argument("--only", default="", help="write only files whose name holds this")
    args = parser.parse_args()

    def says(script, *words):
        command = [sys.executable, pathlib.Path(__file__).with_name(script), *words]
        return subprocess.check_output(command, text=True).splitlines()

    files = {
        "rng.txt": ("calls of one generator", rng_lines),
        "curve_shakespeare_nanogpt.txt": ("2000 steps", lambda: curve_lines(args.shakespeare, "nanogpt", 2000)),
        "curve_shakespeare_fsdp.txt": ("2000 steps", lambda: curve_lines(args.shakespeare, "fsdp", 2000)),
        "curve_tales_nanogpt.txt": ("250 steps", lambda: curve_lines(args.tales, "nanogpt", 250)),
        "batches.txt": ("first batches of tiny Shakespeare", lambda: batch_lines(args.shakespeare)),
        "float8.txt": ("float8_e4m3fn of every bfloat16", float8_lines),
        "one_step.txt": ("a step in float64", lambda: says("one_step.py")),
        "llama.txt": ("a small Llama in float64", lambda: says("llama.py", "--golden")),
        "fsdp2_shards.txt": ("shards of fully_shard", lambda: says("golden_shards.py")),
        "init.txt": ("hashes of initial weights", init_lines),  # last: it changes the model's size
    }
    HERE.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    manifest = json.loads((HERE / "manifest.json").read_text())
    for name, (what, lines) in files.items():
        if args.only in name:
            (HERE / name).write_text("\n".join(lines()) + "\n")
            manifest["files"][name] = {"what": what, "by": f"PyTorch {torch.__version__}, numpy {numpy.__version__}",
                                       "sha256": hashlib.sha256((HERE / name).read_bytes()).hexdigest()}
            print("wrote", HERE / name, flush=True)
    manifest["files"] = dict(sorted(manifest["files"].items()))
    (HERE / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
