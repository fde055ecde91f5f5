"""What check.sh saw: `parity` compares the curves, `summary` writes summary.json and summary.md."""

import json
import pathlib
import subprocess
import sys

RUNS = ("cuda_1", "cuda_2", "cuda_4")
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "parity"))
import parity as curves

# What two runs on CPUs may differ by, doubled.
TOLERANCES = tuple((step, 2 * loss, 2 * norm) for step, loss, norm in curves.TALES)


def furthest(run, reference):
    """The largest relative differences, and the first step outside the tolerance."""
    def largest(name):
        return max(abs(a[name] - b[name]) / abs(b[name]) for a, b in zip(run, reference))

    return {"loss": largest("loss"), "norm": largest("grad_norm"),
            "leaves the tolerance": curves.first_outside(run, reference, TOLERANCES) or "never"}


def parity(out):
    cpu = curves.records_of(out / "cpu.jsonl")
    found = {run: furthest(curves.records_of(path), cpu)
             for run in RUNS if (path := out / f"{run}.jsonl").exists()}
    (out / "parity.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    return 0 if len(found) == len(RUNS) and all(f["leaves the tolerance"] == "never" for f in found.values()) else 1


def sources():
    """Of each kernel: the hash of the file that ran."""
    files = sorted(p for p in pathlib.Path("src").rglob("*") if p.suffix in (".cu", ".cuh") or p.name.startswith("nccl"))
    hashes = subprocess.run(["git", "hash-object", *files], capture_output=True, text=True)
    return dict(zip(map(str, files), hashes.stdout.split()))


def gpu():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True).stdout.strip()
    except OSError:
        return "no nvidia-smi"


def summary(out):
    steps = [line.split("\t") for line in (out / "steps.tsv").read_text().splitlines()]
    found = json.loads((out / "parity.json").read_text()) if (out / "parity.json").exists() else {}
    (out / "summary.json").write_text(json.dumps(
        {"gpu": gpu(), "steps": {name: {"exit": int(code), "seconds": int(s)} for name, code, s in steps},
         "parity": found, "sources": sources()}, indent=1))
    lines = [f"{gpu()}", "", "| step | result | s |", "|---|---|---|"]
    words = {"0": "passed", "77": "skipped", "124": "timed out"}
    lines += [f"| {name} | {words.get(code, 'failed, ' + code)} | {s} |" for name, code, s in steps]
    if found:
        lines += ["", "| against the CPU, 250 steps | loss | norm | leaves the tolerance |", "|---|---|---|---|"]
        lines += [f"| {run} | {f['loss']:.1e} | {f['norm']:.1e} | {f['leaves the tolerance']} |" for run, f in found.items()]
    (out / "summary.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if all(code == "0" for _, code, _ in steps) else 1


if __name__ == "__main__":
    sys.exit({"parity": parity, "summary": summary}[sys.argv[1]](pathlib.Path(sys.argv[2])))
