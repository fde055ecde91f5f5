"""Training on three ranks for hours: every few minutes one is killed, and the run goes on from its last
checkpoint. Beside it runs the same training, which nobody disturbs. Both must have the same losses to the
bit, memory must not grow, and nothing may be left.

    python3 soak.py build/release/nanofsdp --minutes=120

Exit code 1 if something is otherwise.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

sys.dont_write_bytecode = True  # no __pycache__ among the sources
import files
from trial import ENDS, FOREVER, Miss, Setting, Trial

RUN = Setting(3, "full_shard", "medium")
OPTIONS = ["--dropout=0.1", "--eval_interval=200", "--eval_iters=5", "--log_interval=1000",
           "--timeout=600"]
GROWTH = 1.02  # of what the heaviest rank usually weighs: the heap keeps a little
# Bytes that rank 0 keeps of a step for the picture of the run: three numbers of 16, in arrays that leave
# as much behind when they grow.
PICTURE = 2 * 3 * 16


class Soaked:
    """A run, what its ranks weigh, and the metrics of every time it was started."""

    def __init__(self, binary: Path, folder: Path):
        self.trial = Trial(binary, folder, RUN, False, Random(folder.name))
        self.metrics: list[Path] = []
        self.weights: list[int] = []  # bytes of the heaviest rank, every ten seconds

    def start(self, *more: str) -> None:
        t = self.trial
        t.metrics = t.folder / f"given.metrics.{len(self.metrics)}.jsonl"
        self.metrics.append(t.metrics)
        t.start(FOREVER, [*OPTIONS, *more])

    def weigh(self) -> None:
        self.weights.append(max(map(resident, self.trial.rank_pids())))

    def strike_and_resume(self) -> None:
        t = self.trial
        rank = t.any_rank()
        t.send(rank, signal.SIGKILL)
        t.ends(f"rank {rank} was killed")
        files.last_checkpoint(t.out_dir)  # there is one
        t.again()
        self.start("--init_from=resume")

    def end(self) -> None:
        t = self.trial
        t.strikes()
        t.started[0].send_signal(signal.SIGTERM)
        t.wait(2 * ENDS)
        t.check_leftovers()

    def lines(self) -> dict:
        """Of each step and evaluation, its numbers; what was trained twice has them twice."""
        found: dict = {}
        for metrics in self.metrics:
            for line in files.losses(metrics):
                key = (line["iter"], "loss" in line)
                if found.setdefault(key, line) != line:
                    raise Miss(f"{key} differs after a resume: {line}, before {found[key]}")
        return found

    def grown(self, steps: int) -> float:
        """The median weight of the last quarter, divided by that of the second. The largest weight
        would not do: a struck run has many processes, and the heap of each differs a little. Half of
        the steps lie between the middles of the two, and what is kept of them does not count."""
        quarter = len(self.weights) // 4
        kept = PICTURE * steps / 2 if len(self.metrics) == 1 else 0  # each process begins with none
        return (median(self.weights[-quarter:]) - kept) / median(self.weights[quarter:2 * quarter])


def resident(pid: int) -> int:
    """Bytes of memory that a process has, those it shares among them."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise Miss(f"process {pid} has ended")


def soak(calm: Soaked, struck: Soaked, minutes: float, pause: float) -> None:
    end = time.monotonic() + 60 * minutes
    struck_at = time.monotonic()
    while time.monotonic() < end:
        time.sleep(10)
        for run in (calm, struck):
            run.weigh()
        if time.monotonic() > struck_at + 60 * pause:
            struck.strike_and_resume()
            struck_at = time.monotonic()
            time.sleep(10)
    for run in (calm, struck):
        run.end()


def report(calm: Soaked, struck: Soaked) -> None:
    expected, got = calm.lines(), struck.lines()
    both = expected.keys() & got.keys()
    if wrong := sorted(key for key in both if expected[key] != got[key]):
        raise Miss(f"{len(wrong)} of {len(both)} lines differ, first {wrong[0]}")
    print(f"{len(struck.metrics) - 1} ranks killed; {len(both)} losses of steps and evaluations, the same")
    for name, run, lines in (("undisturbed", calm, expected), ("struck", struck, got)):
        steps = max(lines)[0]
        print(f"{name}: {steps} steps, a rank has at most {max(run.weights) / 1e6:.1f} MB, "
              f"growth {run.grown(steps):.4f} beside the picture")
        if run.grown(steps) > GROWTH:
            raise Miss("memory grows")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path, help="build/release/nanofsdp")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--pause", type=float, default=5, help="minutes between two kills")
    options = parser.parse_args()
    if options.minutes < 1:
        parser.error("--minutes: expected at least 1, or there is too little memory to compare")
    folder = Path(tempfile.mkdtemp(prefix="nanofsdp-soak-"))
    runs = [Soaked(options.binary.resolve(), folder / name) for name in ("calm", "struck")]
    try:
        for run in runs:
            run.start()
        soak(*runs, options.minutes, options.pause)
        report(*runs)
    except Miss as miss:
        print(f"MISS: {miss}\ntheir files: {folder}")
        return 1
    finally:
        for run in runs:
            run.trial.clean_up()
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of clean_up()
    sys.exit(main())
