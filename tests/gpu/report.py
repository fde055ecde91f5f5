"""What check.sh saw: `parity` compares the curves, `summary` writes the results.

    python3 report.py parity WORK        WORK is check.sh's folder
    python3 report.py summary WORK
"""

import datetime
import json
import math
import os
import pathlib
import re
import shutil
import sys

import unverified

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "parity"))
import parity as curves

OURS = ("ours_1", "local_2", "local_4", "ours_2", "ours_4")
PYTORCH = ("torch_1", "fsdp2_1", "fsdp2_2")
SPEEDS = ("ours", "eager", "compile")
LEAST = 50  # steps: of a shorter curve nothing follows
WORDS = {0: "passed", 77: "skipped", 124: "out of time", 137: "out of time", 127: "not found"}
# What two runs on CPUs may differ by, doubled.
TOLERANCES = tuple((step, 2 * loss, 2 * norm) for step, loss, norm in curves.TALES)


def load(file, otherwise):
    return json.loads(file.read_text()) if file.exists() else otherwise


def curve_of(file):
    """Its records, one a step. A run that was killed may leave no file, or half of the last line."""
    lines = file.read_text().split("\n")[:-1] if file.exists() else []
    records = [{key: math.nan if x is None else x for key, x in json.loads(line).items()} for line in lines]
    return [r for r in records if "loss" in r]


def furthest(run, reference):
    """Over the steps that both have: the largest relative differences, the first outside the tolerance."""
    steps = min(len(run), len(reference))
    if steps < LEAST:
        return {"steps": steps, "loss": None, "norm": None, "leaves": f"too short: {LEAST} steps at least"}
    return {"steps": steps,
            "loss": max(curves.differences(run, reference, "loss")),
            "norm": max(curves.differences(run, reference, "grad_norm")),
            "leaves": curves.first_outside(run, reference, TOLERANCES) or "never"}


def steps_of(work):
    """What has run so far, and how it ended; of a step that ran several times, the last."""
    lines = [line.split("\t") for line in (work / "steps.tsv").read_text().splitlines()]
    return {name: {"exit": int(code), "seconds": int(seconds)} for name, code, seconds in lines}


def parity(work):
    """0 if our runs so far are near the CPU's. A run that ends early is a failure of its own step."""
    records = {run: curve_of(work / f"{run}.jsonl")
               for run in ("cpu", *OURS, *PYTORCH) if run in steps_of(work)}
    reference = records.pop("cpu", [])
    found = {run: furthest(curve, reference) for run, curve in records.items()}
    (work / "parity.json").write_text(json.dumps(found, indent=1))
    for run, difference in found.items():
        print(run, difference)
    return 0 if all(found[run]["leaves"] == "never" for run in OURS if run in found) else 1


def source():
    """Of all that was built: one hash."""
    files = sorted(p for folder in ("src", "tests") for p in (unverified.ROOT / folder).rglob("*")
                   if p.is_file() and "__pycache__" not in p.parts and "results" not in p.parts)
    lines = [f"{unverified.hash_of(p)} {p.relative_to(unverified.ROOT)}\n" for p in files]
    return unverified.hashlib.sha1("".join(lines).encode()).hexdigest()


def collect(work):
    steps = steps_of(work)
    machine = (work / "logs" / "probe").read_text().splitlines()
    if steps.get("pytorch", {}).get("exit") == 0:
        machine += (work / "logs" / "pytorch").read_text().splitlines()
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d_%H%M"),
            "gpu": machine[0].split(",")[0], "machine": machine, "source": source(), "steps": steps,
            "parity": load(work / "parity.json", {}),
            "speed": {who: found for who in SPEEDS if (found := load(work / f"speed_{who}.json", None))},
            "kernels": unverified.kernels()}


def number(x, form):
    return "" if x is None else format(x, form)


def markdown(found):
    lines = [f"# {found['gpu']}, {found['date']}", "", f"Source {found['source']}."]
    lines += ["", "```text", *found["machine"], "```", "", "| step | result | s |", "|---|---|---|"]
    lines += [f"| {name} | {WORDS.get(step['exit'], 'failed, %d' % step['exit'])} | {step['seconds']} |"
              for name, step in found["steps"].items()]
    if found["parity"]:
        lines += ["", "| from our CPU's curve, at most | steps | loss | norm | leaves the tolerance |", "|---|---|---|---|---|"]
        lines += [f"| {run} | {d['steps']} | {number(d['loss'], '.1e')} | {number(d['norm'], '.1e')} | {d['leaves']} |"
                  for run, d in found["parity"].items()]
    if found["speed"]:
        speeds = list(found["speed"].values())
        model, last = speeds[0]["model"], speeds[-1]
        lines += ["", f"| one GPU, bfloat16; layers, heads, width, context, rows: {model} | ms a step | tokens/s | "
                  "TFLOP/s of the model | times the last row's | peak GB | loss, first and last |", "|---|---|---|---|---|---|---|"]
        lines += [f"| {s['words']} | {s['ms']:.1f} ({s['fastest']:.1f} to {s['slowest']:.1f}) | {s['tokens_per_s']:,.0f} | "
                  f"{s['tflops']:.1f} | {last['ms'] / s['ms']:.2f} | {s['peak_bytes'] / 1e9:.1f} | "
                  f"{s['first_loss']:.3f}, {s['last_loss']:.3f} |" for s in speeds]
        lines += ["", *(f"This GPU multiplies 8192 x 8192 matrices in bfloat16 at {l['product_tflops']:.0f} TFLOP/s and copies "
                        f"{l['copy_gb_per_s']:,.0f} GB/s, read and written." for s in speeds if (l := s.get("limits")))]
    return "\n".join(lines) + "\n"


def summary(work):
    """Writes what was found; 0 if every step passed."""
    found = collect(work)
    report = markdown(found)
    (work / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    (work / "summary.md").write_text(report)
    name = re.sub(r"\W+", "_", found["gpu"].lower()) + "_" + found["date"]
    # A rehearsal is no result.
    places = [HERE / "results"] * (os.environ["device"] == "cuda") + [pathlib.Path(p) for p in [os.environ.get("OUT")] if p]
    for place in places:
        for kind in ("json", "md"):
            shutil.copy(work / f"summary.{kind}", place / f"{name}.{kind}")
    written = ", ".join(str(place / name) for place in places) or work / "summary"
    print(f"{report}written: {written}.json and .md; logs: {os.environ['out']}/logs.txt")
    return 0 if all(step["exit"] == 0 for step in found["steps"].values()) else 1


if __name__ == "__main__":
    sys.exit({"parity": parity, "summary": summary}[sys.argv[1]](pathlib.Path(sys.argv[2])))
