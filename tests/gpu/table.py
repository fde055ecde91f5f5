"""What table.sh measured, as one table: `table.py WORK`."""

import json
import pathlib
import sys

WORK = pathlib.Path(sys.argv[1])
MODELS = {"": "GPT-2 124M", "medium": "GPT-2 medium", "xl": "GPT-2 XL, recomputed"}
LIMITS = {"ms": 118, "ratio": 0.95, "bytes": 32e9, "loss": 1e-2}


def load(name):
    path = WORK / name
    return json.loads(path.read_text()) if path.exists() else None


def losses(name):
    lines = (WORK / f"{name}.jsonl").read_text().splitlines()
    return [r["loss"] for r in map(json.loads, lines) if "loss" in r]


def verdict(what, value, limit, form):
    print(f"{what}: {value:{form}}, wanted at most {limit:{form}}: {'yes' if value <= limit else 'NO'}")


def main():
    print("| model | who | ms a step | tokens/s | memory, GB | first and last loss |")
    print("|---|---|---|---|---|---|")
    found = {(case, who): r for case in MODELS for who in ("ours", "eager", "compile") if (r := load(f"speed_{who}{case}.json"))}
    for (case, who), r in found.items():
        print(f"| {MODELS[case]} | {r['words']} | {r['ms']:.1f} | {r['tokens_per_s']:,.0f} | {r['peak_bytes'] / 1e9:.1f} | "
              f"{r['first_loss']:.3f}, {r['last_loss']:.3f} |")
    ours, compiled = found.get(("", "ours")), found.get(("", "compile"))
    if ours:
        verdict("ms a step", ours["ms"], LIMITS["ms"], ".1f")
        verdict("memory, bytes", ours["peak_bytes"], LIMITS["bytes"], ",.0f")
    if ours and compiled:
        verdict("of torch.compile's time", ours["ms"] / compiled["ms"], LIMITS["ratio"], ".3f")
    if (WORK / "bfloat16.jsonl").exists() and (WORK / "autocast.jsonl").exists():
        pairs = list(zip(losses("bfloat16"), losses("autocast")))
        verdict(f"losses of {len(pairs)} steps beside autocast's", max(abs(a - b) for a, b in pairs), LIMITS["loss"], ".1e")
    if (products := WORK / "products.txt").exists():
        lines = products.read_text().splitlines()
        others = sum(not line.endswith(": 0") for line in lines)
        print(f"products: {len(lines)} timed; for {others} another kernel than cuBLAS's first was the fastest")


if __name__ == "__main__":
    main()
