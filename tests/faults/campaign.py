"""Hundreds of short runs, each with one fault at a random moment: no hang, no leftover, the error
names who was at fault.

    python3 campaign.py build/release/nanofsdp --faults=500 --seed=1
    python3 campaign.py build/release/nanofsdp --nth    # instead: the n-th call fails (nth.py)

Prints what went otherwise as it happens and a table at the end; all of it as JSON in --out. Each
fault depends on the seed and its number alone: --only=NUMBER repeats one. Exit code 1 on any miss.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

sys.dont_write_bytecode = True  # no __pycache__ among the sources
import world
import faults
import nth
import resumed
import strangers
from kind import Kind
from trial import SHORT, STRATEGIES, Miss, Setting, Trial

KINDS = faults.KINDS + resumed.KINDS + strangers.KINDS


class Campaign:
    def __init__(self, binary: Path, scratch: Path, seed: int):
        self.binary, self.scratch, self.seed = binary, scratch, seed
        self.healthy_runs: dict[Setting, Trial] = {}

    def schedule(self, kinds: list[Kind]) -> list[tuple[Kind, bool]]:
        """One round: every kind as often as its share says, in every way to start ranks."""
        return [(kind, mode) for kind in kinds for mode in kind.modes()
                for _ in range(kind.share)]

    def setting(self, number: int, kind: Kind, rng: Random) -> Setting:
        """Strategies and numbers of ranks in turn."""
        strategy = STRATEGIES[number % len(STRATEGIES)]
        ranks = 4 if strategy == "hybrid_shard" else 2 + number // len(STRATEGIES) % 3
        return Setting(ranks, strategy, rng.choice(kind.shapes))

    def trial(self, name: str, setting: Setting, by_hand: bool, rng: Random) -> Trial:
        trial = Trial(self.binary, self.scratch / name, setting, by_hand, rng)
        trial.healthy = lambda: self.healthy(setting)
        return trial

    def healthy(self, setting: Setting) -> Trial:
        """The same run without a fault; once."""
        if setting not in self.healthy_runs:
            name = f"healthy.{len(self.healthy_runs)}"
            trial = self.trial(name, setting, False, Random(0))
            try:
                trial.start(SHORT)
                trial.until(lambda: trial.trained(SHORT), "no training", within=120)
                trial.until(lambda: trial.saved(SHORT), "no model", within=120)
            finally:
                trial.clean_up()  # nobody waits for its sample
            self.healthy_runs[setting] = trial
        return self.healthy_runs[setting]

    def run(self, number: int, kind: Kind, by_hand: bool) -> dict:
        rng = Random(f"{self.seed}/{number}")
        setting = self.setting(number, kind, rng)
        trial = self.trial(f"fault.{number}", setting, by_hand, rng)
        miss = None
        try:
            kind.run(trial)
        except Miss as error:
            miss = str(error)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            miss = f"{type(error).__name__}: {error}"
        finally:
            trial.clean_up()
        if miss is None:
            shutil.rmtree(trial.folder)
        return {"number": number, "kind": kind.name, "by_hand": by_hand, "ranks": setting.ranks,
                "strategy": setting.strategy, "shape": setting.shape,
                "seconds": round(trial.seconds, 3), "miss": miss}


def table(results: list[dict]) -> str:
    """Markdown: a row a kind of fault and way to start ranks."""
    rows = ["| fault | ranks started | number | passed | median s | worst s |",
            "|---|---|---:|---:|---:|---:|"]
    keys = dict.fromkeys((r["kind"], r["by_hand"]) for r in results)
    for kind, by_hand in [*sorted(keys, key=lambda k: list(keys).index(k)), ("all", None)]:
        some = [r for r in results if by_hand is None or (r["kind"], r["by_hand"]) == (kind, by_hand)]
        good = [r["seconds"] for r in some if r["miss"] is None] or [float("nan")]
        how = {None: "", True: "by hand", False: "by the launcher"}[by_hand]
        passed = sum(r["miss"] is None for r in some)
        rows.append(f"| {kind} | {how} | {len(some)} | {passed} | {statistics.median(good):.2f} | "
                    f"{max(good):.2f} |")
    return "\n".join(rows) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path, help="build/release/nanofsdp")
    parser.add_argument("--faults", type=int, default=500, metavar="F")
    parser.add_argument("--seed", type=int, help="default: the clock's")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this fault alone")
    parser.add_argument("--kind", default="", help="only kinds whose name holds this")
    parser.add_argument("--out", type=Path, default=Path("build/faults"), help="for the report")
    return parser.parse_args()


def main() -> int:
    if "--nth" in sys.argv:
        return nth.main()
    options = arguments()
    binary = options.binary.resolve()
    seed = int(time.time()) if options.seed is None else options.seed
    options.out.mkdir(parents=True, exist_ok=True)
    isolated = Trial.isolated = world.isolate()
    slow = isolated and world.can_slow_loopback()
    possible = [k for k in KINDS if (isolated or not k.isolated) and (slow or k.name != "slow link")]
    print(f"seed {seed}; {'a network and mounts' if isolated else 'no network'} of its own; "
          f"not possible here: {', '.join(k.name for k in KINDS if k not in possible) or 'nothing'}",
          flush=True)
    kinds = [k for k in possible if options.kind in k.name]

    scratch = Path(tempfile.mkdtemp(prefix="nanofsdp-faults-"))
    try:
        results = run_all(Campaign(binary, scratch, seed), kinds, options)
    except BaseException:  # interrupted
        shutil.rmtree(scratch)
        raise
    report = table(results)
    (options.out / "report.json").write_text(
        json.dumps({"seed": seed, "isolated": isolated, "results": results}, indent=1) + "\n")
    (options.out / "report.md").write_text(report)
    print(report, end="")
    missed = sum(r["miss"] is not None for r in results)
    if missed:
        print(f"{missed} of {len(results)} missed; their files: {scratch}")
    else:
        shutil.rmtree(scratch)
    return 1 if missed else 0


def run_all(campaign: Campaign, kinds: list[Kind], options) -> list[dict]:
    seed = campaign.seed
    plan = campaign.schedule(kinds)
    Random(seed).shuffle(plan)
    results = []
    for number in range(options.faults):
        if options.only not in (None, number):
            continue
        kind, by_hand = plan[number % len(plan)]
        result = campaign.run(number, kind, by_hand)
        results.append(result)
        if result["miss"]:
            how = "by hand" if by_hand else "launcher"
            print(f"[{number}] {kind.name}, {how}, {result['ranks']} ranks, {result['strategy']}, "
                  f"{result['shape']}: {result['miss']}", flush=True)
    return results


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of clean_up()
    sys.exit(main())
