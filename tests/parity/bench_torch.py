"""`make bench-torch`: nanofsdp and PyTorch, the same training step, in turns; a Markdown table.

Every round runs each candidate once, one after the other, each in processes of its own; a figure is
the median over the rounds of a run's mean step, without its first two. Peak memory is the VmHWM of
the process that had most, on both sides. Whether the targets are met is judged against the fastest
AdamW that this PyTorch has; torch.compile, with the fused one, counts as one more where ranks are not.
"""

import argparse
import json
import pathlib
import re
import statistics

import process_tree
import pytorch

HERE = pathlib.Path(__file__).parent
WARM_UP = 2
TRIES = 3  # ranks of PyTorch over Gloo have been seen to abort as they ended, one run in dozens
# name in `nanofsdp bench`: layers, heads, width, context, rows; timed steps; vocabulary, 0: the tales'
RECIPES = {"4 x 128": ("4,4,128,64,12", 50, 0), "6 x 384": ("6,6,384,256,12", 2, 0),
           "124M": ("12,12,768,64,4", 2, 50304)}
# name in `nanofsdp bench`: PyTorch's word for it, its options, threads a process
ROWS = {"1 thread": ("1 thread", [], 1), "2 threads": ("2 threads", [], 2),
        "2 ranks, no_shard": ("DDP, 2 ranks", ["--how=ddp", "--ranks=2"], 1),
        "2 ranks, full_shard": ("FSDP2, 2 ranks", ["--how=fsdp2", "--ranks=2"], 1)}
FASTER = {"1 thread": 1.5, "2 threads": 1.5, "2 ranks, full_shard": 2.0}
OVER_APART = {"6 x 384": 1.10, "124M": 1.5}
HAS_ADAMW = "import torch; p = torch.zeros(1, requires_grad=True); p.grad = p.detach(); torch.optim.AdamW([p], {}=True).step()"
COMPILES = "import torch; torch.compile(lambda x: x + 1)(torch.zeros(1))"


def characters(vocabulary):
    """The text that `nanofsdp bench` makes for a vocabulary."""
    return "".join(chr(0x800 + i * 7919 % vocabulary) for i in range(4 * vocabulary))


def find_pytorch(named):
    """(interpreter, version, kinds of AdamW) of the first interpreter with a PyTorch."""
    for python in named or (str(pytorch.PRIVATE / "bin" / "python"), "python3", "/usr/bin/python3"):
        found = pytorch.says(python, pytorch.PROBE)
        if found is not None:
            kinds = [k for k in ("foreach", "fused") if pytorch.says(python, HAS_ADAMW.format(k)) is not None]
            compiles = "fused" in kinds and pytorch.says(python, COMPILES) is not None
            return python, found[0], ["default", *kinds, *(["compiled"] if compiles else [])]
    pytorch.stop("no PyTorch; name an interpreter with PYTHON=..., or `make parity TORCH=install` fetches one")


class Ours:
    def __init__(self, binary, recipe, row):
        self.label, self.row, self.adamw, self.threads = f"nanofsdp, {recipe}, {row}", row, None, 1
        self.command = [binary, "bench", "--only=steps", "--rounds=1", f"--rows={recipe}, {row}"]

    def read(self, output):
        line = re.search(r"^  .+? +([\d.]+) ms .*, ([\d.]+) MB a rank", output, re.M)
        return {"ms": float(line[1]), "ledger": 1e6 * float(line[2])}


class PyTorch:
    def __init__(self, python, recipe, row, adamw, text, metrics):
        model, steps, _ = RECIPES[recipe]
        name, options, self.threads = ROWS[row]
        self.label, self.row, self.adamw, self.metrics = f"PyTorch, {recipe}, {name}, {adamw}", row, adamw, metrics
        self.command = [python, str(HERE / "bench_reference.py"), f"--model={model}", f"--adamw={adamw}",
                        f"--threads={self.threads}", f"--text={text}", f"--metrics={metrics}",
                        f"--max_iters={WARM_UP + steps}", *options]

    def read(self, _):
        times = [json.loads(line)["ms"] for line in self.metrics.read_text().splitlines()]
        return {"ms": statistics.mean(times[WARM_UP:])}


def measure(candidate):
    """One run: its figures; None if it fails again and again."""
    threads = {f"{library}_NUM_THREADS": str(candidate.threads) for library in ("OMP", "MKL", "OPENBLAS")}
    for _ in range(TRIES):
        code, output, peaks = process_tree.run(candidate.command, threads)
        if code == 0:
            break
        print(f"  {candidate.label}: ended with {code}: {output.strip().splitlines()[-1:]}", flush=True)
    else:
        return None
    sample = {**candidate.read(output), "resident": max(peaks.values())}
    print(f"  {candidate.label}: {sample['ms']:.1f} ms, {sample['resident'] / 1e6:.0f} MB", flush=True)
    return sample


def race(candidates, rounds):
    """[(candidate, medians of its figures)], of those that run."""
    samples = [[] for _ in candidates]
    for _ in range(rounds):
        for candidate, taken in zip(candidates, samples):
            if None not in taken:
                taken.append(measure(candidate))
    return [(candidate, {key: statistics.median(s[key] for s in taken) for key in taken[0]})
            for candidate, taken in zip(candidates, samples) if None not in taken]


def verdicts(recipe, row, ours, fastest, apart):
    """What the targets ask of this row, each with its figure and whether it is met."""
    def verdict(words, figure, met):
        return f"{words} {figure:.2f}: {'met' if met else 'missed'}"

    found, speed, memory = [], fastest["ms"] / ours["ms"], ours["resident"] / fastest["resident"]
    if row in FASTER:
        found.append(verdict(f"≥ {FASTER[row]} × faster", speed, speed >= FASTER[row]))
    if row == "2 ranks, full_shard" and recipe in OVER_APART and apart:
        over = ours["ms"] / apart["ms"]
        found.append(verdict(f"≤ {OVER_APART[recipe]} × without communication", over, over <= OVER_APART[recipe]))
    found.append(verdict("≤ 0.5 of the memory", memory, memory <= 0.5))
    return found


def summarise(recipe, results):
    """A record for each row that both sides have."""
    ours = {c.row: figures for c, figures in results if c.adamw is None}
    records = []
    for row, (name, _, _) in ROWS.items():
        theirs = {c.adamw: figures for c, figures in results if c.row == row and c.adamw}
        if row not in ours or not theirs:
            continue
        best = min(theirs, key=lambda kind: theirs[kind]["ms"])
        records.append({"recipe": recipe, "nanofsdp": row, "pytorch": name, "ours": ours[row], "theirs": theirs,
                        "fastest": best, "apart": ours.get("2 ranks, apart"),
                        "targets": verdicts(recipe, row, ours[row], theirs[best], ours.get("2 ranks, apart"))})
    return records


def table(records):
    head = ["recipe", "nanofsdp", "PyTorch", "ms", "PyTorch's", "ratio", "with its fastest AdamW", "ratio",
            "peak MB (ledger)", "PyTorch's", "targets"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for r in records:
        ours, best, default = r["ours"], r["theirs"][r["fastest"]], r["theirs"].get("default")
        slow = [f"{default['ms']:.1f}", f"{default['ms'] / ours['ms']:.2f}"] if default else ["", ""]
        lines.append("| " + " | ".join(
            [r["recipe"], r["nanofsdp"], r["pytorch"], f"{ours['ms']:.1f}", *slow,
             f"{best['ms']:.1f} ({r['fastest']})", f"{best['ms'] / ours['ms']:.2f}",
             f"{ours['resident'] / 1e6:.0f} ({ours['ledger'] / 1e6:.0f})", f"{best['resident'] / 1e6:.0f}",
             "; ".join(r["targets"])]) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--tales", required=True, help="the built-in text as a file")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--python", default="", help="interpreters with PyTorch; default: the first found")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--recipes", default=";".join(RECIPES), help="some of these, between semicolons")
    parser.add_argument("--rows", default=";".join(ROWS), help="some of these, between semicolons")
    args = parser.parse_args()
    python, version, kinds = find_pytorch(args.python.split())
    args.out.mkdir(parents=True, exist_ok=True)
    records, library = [], max(process_tree.run([python, "-c", "import torch"], {})[2].values()) / 1e6
    for recipe in args.recipes.split(";"):
        text, vocabulary = pathlib.Path(args.tales), RECIPES[recipe][2]
        if vocabulary:
            text = args.out / "characters.txt"
            text.write_text(characters(vocabulary), encoding="utf-8")
        candidates = [Ours(args.binary, recipe, "2 ranks, apart")]
        for row in args.rows.split(";"):
            candidates.append(Ours(args.binary, recipe, row))
            candidates += [PyTorch(python, recipe, row, kind, text, args.out / "metrics.jsonl")
                           for kind in kinds if kind != "compiled" or "thread" in row]
        print(f"{recipe}: {len(candidates)} candidates, {args.rounds} rounds", flush=True)
        records += summarise(recipe, race(candidates, args.rounds))
        report = (f"One training step beside PyTorch {version}, float32; medians of {args.rounds} rounds in turns. "
                  f"AdamW of PyTorch: {', '.join(kinds)}. A process that only imports PyTorch: {library:.0f} MB.\n\n"
                  + table(records))
        (args.out / "bench_torch.md").write_text(report)
        (args.out / "bench_torch.json").write_text(json.dumps({"pytorch": version, "library_mb": library, "records": records}, indent=1))
    print(f"\n{report}\nwritten: {args.out}/bench_torch.md, {args.out}/bench_torch.json")


if __name__ == "__main__":
    main()
