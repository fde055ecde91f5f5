"""The leaderboard of lesson 13: whose steps expose the least?

    leaderboard.py BUILD OUT FOLDER [--seed=N]

FOLDER has a folder for each student, with the file overlap_exercise.cpp anywhere in it. grade.py
compiles and runs each, and only those that pass their checker are listed. The number is the sum of
the exposed milliseconds of 24 steps: 1 to 6 units, with 1 to 4 slots. The library's steps are listed
too, if its solution is in this tree.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from grade import files_below

HERE = pathlib.Path(__file__).resolve().parent
SOLUTION = HERE.parent / "13_overlap/overlap_solution.cpp"


def exposed(build, out, handed_in, arguments):
    """The number of what lies in this folder; None if it does not pass."""
    if not files_below(handed_in, "*_exercise.cpp"):
        return None
    done = subprocess.run([sys.executable, "-B", HERE / "grade.py", build, out, f"--from={handed_in}",
                           "--only=13", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"make leaderboard: {done.stderr}")
    board = json.loads((out / "results.json").read_text())["leaderboard"]
    return board[0]["value"] if board else None


def library(build, out, arguments):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "overlap_exercise.cpp").write_text(SOLUTION.read_text())
        return exposed(build, out, pathlib.Path(folder), arguments)


def main():
    build, out, folder = (pathlib.Path(word) for word in sys.argv[1:4])
    arguments = sys.argv[4:]
    students = sorted(path for path in folder.iterdir() if path.is_dir()) if sys.argv[3] and folder.is_dir() else []
    if not students:
        sys.exit(f"make leaderboard: FROM is to name a folder with a folder for each student, got '{sys.argv[3]}'")
    found = {path.name: exposed(build, out, path, arguments) for path in students}
    missing = [name for name, number in found.items() if number is None]
    if SOLUTION.exists():
        found["(the library)"] = library(build, out, arguments)
    ranked = sorted((number, name) for name, number in found.items() if number is not None)
    print(f"{'':>3}  {'student':<24}{'exposed ms of 24 steps':>24}")
    for number, name in ranked:
        place = 1 + sum(other < number for other, _ in ranked)
        print(f"{place:>3}  {name:<24}{number:>24}")
    for name in missing:
        print(f"{'-':>3}  {name:<24}{'does not pass yet':>24}")


if __name__ == "__main__":
    main()
