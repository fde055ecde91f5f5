"""Runs in which the n-th call of one kind fails in one rank, for n = 1, 2, ... until no call fails.

    python3 nth.py build/release/nanofsdp [--most=200] [--kind=write] [--way=tcp]

A run trains three iterations and saves after each, or resumes after the second one. It must end in
time: either with one error that says what failed, or with the losses and weights of the undisturbed
run. What it saved must be whole, and a run that resumes from there must end with the same weights.
Of many calls, the first 50 fail and then every k-th. Exit code 1 on any miss. A program with the
address sanitizer (`make asan`) must also leave no memory and touch none that is not its own.
"""

import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

sys.dont_write_bytecode = True  # no __pycache__ among the sources
import files
from trial import SHAPES, Miss, Setting, Trial

SHAPES["tiny"] = (2, 2, 8, 8)
RANKS, LAUNCHER, SLOTS, PLACES = 2, 7, 8, 24  # as fail_nth.cpp has them
HALF, WHOLE, MORE = 2, 3, 4        # iterations before a resumed run, of a run, and of the last one
LIMIT = 60                         # seconds that a run may take
FIRST = 50                         # calls that all fail, before only some do; fewer if --most is small
WAYS = {"alone": ["--ranks=1"],
        "threads": ["--ranks=2", "--backend=local"],
        "shared": ["--ranks=2", "--backend=gloo", "--transport=shared"],
        "tcp": ["--ranks=2", "--backend=gloo", "--transport=gloo"]}
# What an error says, by the kind of call that failed.
SAYS = {"memory": r"memory ran out|memory: expected|Cannot allocate memory|rank \d",
        "mapping": r"Cannot allocate memory|No space left",
        "write": r"No space left|Input/output error|--trace|--metrics", "read": r".",
        "thread": r"a thread could not be started|Resource temporarily unavailable",
        "process": r"fork: got Resource temporarily unavailable",
        "net": r"rank \d|socket: got|connections of "}
# For a program with the address sanitizer, which is then not the first library, and does not see
# which function has taken memory.
SANITIZER = {"ASAN_OPTIONS": "verify_asan_link_order=0:alloc_dealloc_mismatch=0:exitcode=99",
             "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99"}
OF_THE_SYSTEM = "leak:_dl_map_object_deps\n"  # memory of the loader, which nothing frees


@dataclass(frozen=True)
class Point:
    way: str
    scenario: str
    kind: str
    rank: int
    n: int

    def __str__(self) -> str:
        return f"{self.way}:{self.scenario}:{self.kind}:{self.rank}:{self.n}"


class Board:
    """The file where the preloaded library counts."""

    def __init__(self, folder: Path):
        self.path = folder / "stdout.board"

    def clear(self) -> None:
        self.path.write_bytes(bytes(8 * (SLOTS + 1 + PLACES)))

    def read(self) -> tuple[list[int], bool, list[int]]:
        """The calls of each rank, whether one has failed, and the places of its callers."""
        numbers = struct.unpack(f"{SLOTS + 1 + PLACES}q", self.path.read_bytes())
        return list(numbers[:SLOTS]), bool(numbers[SLOTS]), list(numbers[SLOTS + 1:])


class Nth:
    def __init__(self, binary: Path, library: Path, folder: Path):
        self.binary, self.library, self.folder = binary, library, folder
        self.healthy: dict[tuple[str, int], Trial] = {}
        self.sanitized = b"__asan_init" in binary.read_bytes()
        (folder / "leaks").write_text(OF_THE_SYSTEM)

    def trial(self, name: str) -> Trial:
        setting = Setting(RANKS, "full_shard", "tiny")
        return Trial(self.binary, self.folder / name, setting, False, Random(name))

    def train(self, t: Trial, way: str, iterations: int, name: str, resume: bool, point=None):
        environment = {}
        if self.sanitized:
            suppressions = f"suppressions={self.folder / 'leaks'}:print_suppressions=0"
            environment = SANITIZER | {"LSAN_OPTIONS": suppressions}
        if point is not None:
            board = Board(t.folder)
            board.clear()
            environment |= {"LD_PRELOAD": str(self.library), "NANOFSDP_FAIL":
                            f"{point.kind}:{point.rank}:{point.n}:{board.path}"}
        metrics = t.second_metrics if name == "again" else t.metrics
        how = ["--init_from=resume"] if resume else []
        return t.launch(name, [*t.options(iterations, WAYS[way]), "--eval_interval=1", "--sample=2",
                               f"--timeout={20 if self.sanitized else 2}", "--batch_size=4",
                               f"--metrics={metrics}", *how,
                               f"--trace={t.folder / 'trace.json'}"], environment=environment)

    def undisturbed(self, way: str, iterations: int) -> Trial:
        if (way, iterations) not in self.healthy:
            t = self.trial(f"healthy.{way}.{iterations}")
            self.train(t, way, iterations, "all", False)
            t.completes()
            self.healthy[way, iterations] = t
        return self.healthy[way, iterations]

    def begin(self, t: Trial, point: Point) -> None:
        resume = point.scenario == "resume"
        if resume:
            shutil.copytree(self.undisturbed(point.way, HALF).out_dir, t.out_dir)
        self.train(t, point.way, WHOLE, "all", resume, point)

    def calls(self, way: str, scenario: str, kind: str) -> list[int]:
        """How many calls of this kind each rank makes in an undisturbed run."""
        t = self.trial(f"count.{way}.{scenario}.{kind}")
        self.begin(t, Point(way, scenario, kind, 0, 0))
        t.completes()
        return Board(t.folder).read()[0]

    def run(self, point: Point) -> dict:
        t = self.trial(str(point).replace(":", "."))
        result = {"point": str(point), "miss": None, "error": None, "failed": False}
        try:
            self.begin(t, point)
            t.wait(LIMIT)
            result["failed"] = Board(t.folder).read()[1]
            result["error"] = self.judge(t, point)
            self.judge_saved(t, point)
        except Miss as miss:
            result["miss"] = str(miss) + self.callers(t)
        except (OSError, ValueError) as error:
            result["miss"] = f"{type(error).__name__}: {error}"
        finally:
            t.clean_up()
        if result["miss"] is None:
            shutil.rmtree(t.folder)
        return result

    def judge(self, t: Trial, point: Point) -> str | None:
        """The error that the run told, or None if it went as if nothing had happened."""
        process = t.started[0]
        t.check_leftovers()
        if process.returncode == 0:
            self.same(t, point, t.metrics, WHOLE)
            return None
        if process.returncode >= 128:
            raise Miss(f"a rank died of a signal{t.said()}")
        t.failed(process, SAYS[point.kind])
        lines = t.stderr(process).splitlines()
        told = next(line for line in lines if not line.startswith(("  ", "nanofsdp: refused ")))
        if "std::bad_alloc" in told:
            raise Miss(f"no word for people{t.said()}")
        return told

    def callers(self, t: Trial) -> str:
        """The functions of the program in which the call has failed, from the inside."""
        places = [hex(p) for p in Board(t.folder).read()[2] if p > 0]
        names = subprocess.run(["addr2line", "-Cfse", self.binary, *places], capture_output=True,
                               text=True, check=True).stdout.splitlines()
        inside = [name[:80] for name in names[::2] if name.startswith("nanofsdp::")]
        return "".join(f"\n      in {name}" for name in inside[:4])

    def judge_saved(self, t: Trial, point: Point) -> None:
        """A run that goes on from what was saved ends like the undisturbed one."""
        if not list(t.out_dir.glob("checkpoint*/manifest.json")):
            return
        t.again()
        self.train(t, point.way, MORE, "again", True)
        t.completes()
        self.same(t, point, t.second_metrics, MORE)

    def same(self, t: Trial, point: Point, metrics: Path, iterations: int) -> None:
        healthy = self.undisturbed(point.way, iterations)
        if (t.out_dir / "model.safetensors").read_bytes() != (
                healthy.out_dir / "model.safetensors").read_bytes():
            raise Miss(f"other weights than the undisturbed run{t.said()}")
        def values(path):
            return {(line["iter"], "loss" in line): [line.get(k) for k in ("loss", "val_loss")]
                    for line in files.losses(path)}
        expected = values(healthy.metrics)
        got = values(metrics) if metrics.exists() else {}
        if any(expected.get(key) != value for key, value in got.items()):
            raise Miss("other losses than the undisturbed run")


def chosen(calls: int, most: int) -> list[int]:
    """The numbers of the calls that fail: the first ones, then every k-th."""
    first = min(FIRST, most // 2)
    step = max(1, -(-(calls - first) // max(1, most - first)))
    return [*range(1, min(calls, first) + 1), *range(first + step, calls + 1, step)]


def points(nth: Nth, options) -> list[Point]:
    found = []
    for way in WAYS:
        for scenario in ("scratch", "resume"):
            for kind in SAYS:
                if not re.search(options.kind, kind) or options.way not in way:
                    continue
                calls = nth.calls(way, scenario, kind)
                print(f"{way}, {scenario}, {kind}: {calls[:RANKS]} and {calls[LAUNCHER]} calls",
                      flush=True)
                found += [Point(way, scenario, kind, rank, n) for rank, count in enumerate(calls)
                          for n in chosen(count, options.most)]
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path, help="build/release/nanofsdp")
    parser.add_argument("--nth", action="store_true", help="no effect: campaign.py passes it on")
    parser.add_argument("--most", type=int, default=200, help="points of a kind, rank and way")
    parser.add_argument("--kind", default="", help="only kinds that this expression finds")
    parser.add_argument("--way", default="", help="only ways whose name holds this")
    parser.add_argument("--only", help="this point alone, as a miss prints it")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("build/faults"), help="for the report")
    return parser.parse_args()


def table(results: list[dict]) -> str:
    rows = ["| ranks | kind | points | one error | harmless | missed |",
            "|---|---|---:|---:|---:|---:|"]
    groups: dict[tuple, Counter] = {}
    for r in results:
        way, _, kind, *_ = r["point"].split(":")
        how = "missed" if r["miss"] else "error" if r["error"] else "harmless"
        for key in ((way, kind), ("all", "")):
            groups.setdefault(key, Counter())[how] += 1
    for (way, kind), c in sorted(groups.items(), key=lambda g: g[0][0] == "all"):
        rows.append(f"| {way} | {kind} | {c.total()} | {c['error']} | {c['harmless']} | "
                    f"{c['missed']} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="nanofsdp-nth-"))
    library = folder / "fail_nth.so"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-shared", "-fPIC", "-o", library,
                    Path(__file__).with_name("fail_nth.cpp"), "-ldl"], check=True)
    nth = Nth(options.binary.resolve(), library, folder)
    if options.only:
        way, scenario, kind, rank, n = options.only.split(":")
        todo = [Point(way, scenario, kind, int(rank), int(n))]
    else:
        todo = points(nth, options)
    for way in {p.way for p in todo}:
        for iterations in (HALF, WHOLE, MORE):
            nth.undisturbed(way, iterations)
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(nth.run, todo):
            results.append(result)
            if result["miss"]:
                print(f"[{result['point']}] {result['miss']}", flush=True)
    report = table(results)
    (options.out / "nth.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "nth.md").write_text(report)
    print(report, end="")
    missed = sum(r["miss"] is not None for r in results)
    print(f"{missed} of {len(results)} missed" + (f"; their files: {folder}" if missed else ""))
    if not missed:
        shutil.rmtree(folder)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
