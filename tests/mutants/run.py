#!/usr/bin/env python3
"""run.py BUILD [NAME...]: breaks the code in each way of the catalogues; which test notices?

BUILD is the mutation build. First, without any mutant, all its tests must pass. Then, mutant by
mutant, they run until one fails: first the one that the table names, then those of the mutant's own
room, then the rooms above it. A test that the table does not name must fail twice: once may be for
want of time. The table goes to TABLE.md; where only some mutants are named, only their rows are
new. Exit code 1 if one survives.
"""

import argparse
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ among the sources
from mutate import HERE, CatalogueError, Mutant, read_catalogue

# What needs what: every room comes after those it is built on. Other test folders follow. The
# emulated rooms come where their sources are compiled for the emulated GPU.
ORDER = ["base", "launch", "comm", "emulated_comm", "ops", "emulated", "nn", "gpt", "fsdp",
         "emulated_fsdp", "data", "store", "plan", "train", "bench", "cli", "emulated_training", "parity"]
# What `make test` has: every bug is to be seen by a quick test that points at it.
QUICK = "-*.Long*:Long/*"
TABLE = HERE / "TABLE.md"
NOTHING_TO_RUN = 77  # how a program says that it skipped its tests: here is no GPU


def rooms_for(first: str, rooms: list[str]) -> list[str]:
    """The mutant's own room, those above, those below."""
    at = rooms.index(first) if first in rooms else 0
    return rooms[at:] + rooms[:at]


def read_lines(pipe, lines: queue.Queue) -> None:
    for line in pipe:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def programs(build: Path) -> dict[str, Path]:
    """The test programs by their rooms, in the order in which they are asked."""
    tests = build / "tests"
    found = {p.name[5:]: p for p in [*tests.glob("test_*"), *tests.glob("emulation/test_*")]
             if p.is_file() and not p.suffix}
    return {r: found[r] for r in [r for r in ORDER if r in found] + sorted(found.keys() - ORDER)}


def run_room(program: Path, mutant: str, limit: float, which: str = QUICK) -> str | None:
    """Runs these tests of a room. The first that fails, with how if not by saying so; or None."""
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith("GTEST_") and k not in ("NANOFSDP_MUTANT",
                                                               "NANOFSDP_SHAKESPEARE")}
    if mutant:
        environment["NANOFSDP_MUTANT"] = mutant
    # A session of its own: whatever the tests start is found and killed by it.
    process = subprocess.Popen(
        [program, "--gtest_fail_fast", f"--gtest_filter={which}", "--gtest_color=no"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        errors="replace", start_new_session=True)
    lines: queue.Queue = queue.Queue()
    threading.Thread(target=read_lines, args=(process.stdout, lines), daemon=True).start()
    test, failed = "(start)", None
    until = time.monotonic() + limit
    try:
        while (line := lines.get(timeout=max(until - time.monotonic(), 0.01))) is not None:
            if "[ RUN      ] " in line:
                test, until = line.split("] ", 1)[1], time.monotonic() + limit
            elif "[  FAILED  ] " in line and failed is None:
                failed = line.split("] ", 1)[1].split(" (")[0].split(",")[0]
        code = process.wait(timeout=limit)
    except (queue.Empty, subprocess.TimeoutExpired):
        return f"{test} (hang)"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if failed is not None:
        return failed
    return None if code in (0, NOTHING_TO_RUN) else f"{test} (crash)"


def fails_twice(program: Path, mutant: str, limit: float) -> str | None:
    """The first of a room's tests that fails twice, with how; or None."""
    doubted = ""
    while failed := run_room(program, mutant, limit, QUICK + doubted):
        test = failed.split(" (")[0]
        again = failed if test == "(start)" else run_room(program, mutant, limit, test)
        if again:
            return again
        doubted += f":{test}"
    return None


def catcher(mutant: Mutant, rooms: dict[str, Path], limit: float, before: str | None) -> str | None:
    room, _, test = (before or "").partition(": ")
    if room in rooms and (failed := run_room(rooms[room], mutant.name, limit, test.split(" (")[0])):
        return f"{room}: {failed}"
    for room in rooms_for(mutant.room, list(rooms)):
        if test := fails_twice(rooms[room], mutant.name, limit):
            return f"{room}: {test}"
    return None


def caught_before() -> dict[str, str | None]:
    """What the table says so far."""
    if not TABLE.exists():
        return {}
    rows = [line.strip("| ").split(" | ") for line in TABLE.read_text().splitlines()[4:]]
    return {row[0]: row[2].strip("`") if row[2].startswith("`") else None for row in rows}


def write_table(catalogue: list[Mutant], caught: dict[str, str | None]) -> None:
    mutants = [m for m in catalogue if m.name in caught]
    lines = [f"{len(mutants)} mutants, {sum(caught[m.name] is not None for m in mutants)} caught. "
             "`make mutants` writes this table.", "",
             "| mutant | what is wrong | caught by |", "|---|---|---|"]
    for m in mutants:
        test = f"`{caught[m.name]}`" if caught[m.name] else "**nobody**"
        lines.append(f"| {m.name} | {m.description.replace('|', '&#124;')} | {test} |")
    TABLE.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("names", nargs="*", help="only these, and their rows of the table")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one test")
    options = parser.parse_args()
    mutants = read_catalogue()
    if unknown := set(options.names) - {m.name for m in mutants}:
        print(f"mutants: no mutant '{min(unknown)}' in the catalogues", file=sys.stderr)
        return 2
    rooms = programs(options.build)
    for room in [] if options.names else rooms:
        print(f"without a mutant: {room}", flush=True)
        if test := run_room(rooms[room], "", options.timeout):
            print(f"mutants: {room}: {test} fails already without a mutant", file=sys.stderr)
            return 1
    chosen = [m for m in mutants if not options.names or m.name in options.names]
    known, caught = caught_before(), {}
    for number, m in enumerate(chosen, 1):
        caught[m.name] = catcher(m, rooms, options.timeout, known.get(m.name))
        print(f"[{number}/{len(chosen)}] {m.name}: {caught[m.name] or 'SURVIVED'}", flush=True)
    write_table(mutants, {**(known if options.names else {}), **caught})
    survivors = [name for name, test in caught.items() if test is None]
    print(f"{len(chosen)} mutants, {len(chosen) - len(survivors)} caught")
    if survivors:
        print(f"mutants: no test notices {', '.join(survivors)}", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of the killing in run_room()
    try:
        sys.exit(main())
    except CatalogueError as error:
        sys.exit(f"mutants: {error}")
