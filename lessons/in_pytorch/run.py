"""`make torch`: the lines of PyTorch at the end of each lesson, and what PyTorch counts beside the page.

    python3 run.py 11 --tales=FILE     lesson 11; FILE has the text of the lessons
    python3 run.py --tales=FILE        all lessons, a line each

Each lesson has a file in_pytorch.py. Its page quotes the lines between two markers in this file. The
first line of the file says on how many ranks it runs: as many processes of this machine, CPU, Gloo.
"""

import argparse
import contextlib
import logging
import os
import pathlib
import re
import runpy
import sys
import tempfile
import warnings

LESSONS = pathlib.Path(__file__).resolve().parents[1]

try:
    import torch
    from torch.distributed.fsdp import fully_shard  # noqa: F401
except ImportError as error:
    sys.exit(f"make torch: {error}")


def ranks_of(program):
    """The 4 of a first line that ends with "on 4 ranks."."""
    return int(re.search(r'^""".* on (\d+) ranks?\."""', program.read_text()).group(1))


def lacks(program):
    """What this PyTorch is too old for, in a sentence, or nothing."""
    if "torch.optim.Muon" in program.read_text() and not hasattr(torch.optim, "Muon"):
        return "not run, because torch.optim.Muon needs PyTorch 2.9 or later\n"
    return ""


def run_rank(rank, program, ranks, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), FOLDER=folder, MEETING=f"file://{folder}/meeting")
    sys.argv = [str(program)]
    sys.path.insert(0, str(LESSONS / "in_pytorch"))
    with open(f"{folder}/out" if rank == 0 else os.devnull, "w") as out, contextlib.redirect_stdout(out):
        runpy.run_path(str(program))


def run(program):
    """What rank 0 prints, and whether all ranks ended well."""
    ranks = ranks_of(program)
    with tempfile.TemporaryDirectory() as folder:
        try:
            torch.multiprocessing.start_processes(run_rank, (program, ranks, folder), ranks, start_method="fork")
            wrong = ""
        except torch.multiprocessing.ProcessRaisedException as error:
            wrong = str(error)
        except torch.multiprocessing.ProcessExitedException as error:
            wrong = f"{error}\n"
        out = pathlib.Path(folder, "out").read_text()
    ended = out.splitlines()[-1:] or [""]
    well = not wrong and ended[0].startswith("equal: ")
    return out + ("" if out and ended[0].startswith("NOT AS") else wrong), well


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lesson", nargs="?", default="", help="the number of a lesson; default: all")
    parser.add_argument("--tales", required=True, help="a file with the text of the lessons")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of the lines only errors count
    logging.disable(logging.WARNING)
    os.environ["TALES"] = os.path.abspath(args.tales)
    number = args.lesson.zfill(2) if args.lesson else ""
    programs = sorted(LESSONS.glob(f"{number}*_*/in_pytorch.py"))
    if not programs:
        sys.exit(f"make torch: N is to name a lesson, as in N=11, got '{args.lesson}'")
    print(f"PyTorch {torch.__version__} over Gloo, on this CPU")
    failed = []
    for program in programs:
        name, ranks = program.parent.name, ranks_of(program)
        if not number:
            print(f"{name:24}{ranks} rank{'s' if ranks > 1 else ' '}  ", end="", flush=True)
        too_old = lacks(program)
        out, well = (too_old, True) if too_old else run(program)
        if number:
            print(f"lesson {name}, {ranks} rank{'s' * (ranks > 1)}\n\n{out}", end="")
        else:
            print(out.splitlines()[-1] if out else "nothing was printed", flush=True)
        failed += [] if well else [name]
    if failed:
        sys.exit(f"make torch: {len(failed)} of {len(programs)} lessons failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
