"""Grades the exercises: points for each that passes its checker.

    grade.py BUILD OUT [--from=FOLDER] [--seed=N] [--only=NN,NN] [--sheet]

BUILD is a configured build folder of this tree; OUT gets results.json (Gradescope's), junit.xml, and
the tree in which everything is compiled: the lessons without their solutions, with the *_exercise.cpp
files of FOLDER, if there is one (anywhere below it), in place of this tree's. With --sheet the sheet
in two dimensions counts, too (sheet.py).

Each checker runs in a process of its own, with limits, on random cases of a seed that is drawn for this
run. If all is right, it says a secret after the last case. Without the secret there are no points,
whatever is printed.
"""

import argparse
import ctypes
import json
import os
import pathlib
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

import sheet
import symbols

POINTS = 10  # an exercise
COMPILE_S, RUN_S, CPU_S = 600, 60, 30
PR_SET_CHILD_SUBREAPER = 36  # of linux/prctl.h
MEMORY = 4 << 30  # bytes of addresses
WRITTEN = 1 << 20  # bytes that a checker may write into a file, its output too
OUTPUT = 16 << 10  # bytes of its output that are kept
ERROR = r"^.*(?:error|undefined reference|multiple definition|undefined symbol|duplicate symbol).*$"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def lessons(build):
    for line in (build / "lessons/list.txt").read_text().splitlines():
        number, name, _ = line.split(" ", 2)
        yield number, name


def files_below(folder, pattern):
    """The files that lie in this folder. A symlink could lead to a solution, so none counts."""
    folder = folder.resolve()
    return [file for file in sorted(folder.rglob(pattern)) if file.is_file() and file.resolve() == file]


def copy_tree(out, handed_in):
    """The lessons without solutions, as OUT/lessons. What has not changed keeps its date. Returns, by
    number, what is to be said where two files of one name were handed in."""
    files, twice = {}, {}
    for folder in sorted((ROOT / "lessons").glob("[0-9]*_*")) + [ROOT / "lessons/frame"]:
        for file in folder.iterdir():
            if file.suffix in (".h", ".cpp") and not file.name.endswith("_solution.cpp"):
                files[file.relative_to(ROOT)] = file
    if handed_in:
        found = files_below(handed_in, "*_exercise.cpp")
        for place in list(files):
            if place.name.endswith("_exercise.cpp"):
                *others, files[place] = [None, *(file for file in found if file.name == place.name)]
                if len(others) > 1:
                    taken = files[place].relative_to(handed_in.resolve())
                    twice[place.parent.name[:2]] = f"{len(others)} files of this name; graded is {taken}\n"
    for place, file in files.items():
        there = out / place
        there.parent.mkdir(parents=True, exist_ok=True)
        if file is None:
            there.write_text("#error no file of this name was handed in\n")
        elif not there.exists() or there.read_bytes() != file.read_bytes():
            shutil.copyfile(file, there)
    return twice


def adopt_orphans():
    """Makes this process the parent of all that its children leave behind, also of what has left their
    group."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children():
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = stat.read_text(errors="replace").rpartition(") ")[2].split()[1]
                if int(parent) == os.getpid():
                    os.kill(int(stat.parent.name), signal.SIGKILL)
            except OSError:  # it has ended meanwhile
                pass
        time.sleep(0.01)


def call(command, seconds, **kwargs):
    """Runs a command, and ends all of its processes with it. Returns its exit code, or None."""
    process = subprocess.Popen(command, start_new_session=True, **kwargs)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        end_children()


def compile_one(build, out, number, log):
    """Returns what is wrong, or nothing."""
    command = ["cmake", "--build", str(build), "--target", f"graded_{number}"]
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    with open(log, "wb") as output:
        code = call(command, COMPILE_S, stdout=output, stderr=subprocess.STDOUT, env=environment)
    said = log.read_text(errors="replace")
    if code is None:
        return "the compiler did not end"
    included = re.findall(r"^\.+ (.*)\n", said, re.M)  # what -H says
    said = re.sub(r"^(\.+ .*|/[^:\n]*|Multiple include guards .*)\n", "", said, flags=re.M)
    checker, yours = (out / f"objects_{number}").read_text().split("\n")
    if any("_solution." in pathlib.Path(file).resolve().name for file in included):
        pathlib.Path(yours).unlink(missing_ok=True)  # so that the next build says again what it includes
        return "includes a solution"
    if code != 0:
        errors = re.findall(ERROR, said, re.M) or said.splitlines()[-5:]
        return "does not compile:\n" + "\n".join(errors[:10])
    return symbols.not_yours(pathlib.Path(checker), pathlib.Path(yours), build.glob("*.a"))


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (WRITTEN, WRITTEN))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_one(program, seed):
    """Returns whether the checker says that all is right, what it printed, and its number for the
    leaderboard, if it has one."""
    secret = secrets.token_hex(32).encode()
    listen, say = os.pipe()

    def prepare():
        os.dup2(say, 3)
        os.set_inheritable(3, True)
        limit()

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        ask, tell = os.pipe()
        os.write(tell, secret)
        os.close(tell)
        code = call([str(program)], RUN_S, stdin=ask, stdout=output, stderr=subprocess.STDOUT,
                    cwd=folder, preexec_fn=prepare, close_fds=False,
                    env={"NANOFSDP_SEED": str(seed), "PATH": os.environ["PATH"]})
        os.close(ask)
        os.close(say)
        os.set_blocking(listen, False)
        try:
            verdict = os.read(listen, 1 << 10)
        except BlockingIOError:
            verdict = b""
        os.close(listen)
        output.seek(0)
        said = output.read(OUTPUT).decode(errors="replace")
    if verdict.startswith(secret + b"y"):
        number = verdict[len(secret) + 1:].decode()
        return True, said, int(number) if number else None
    if code is None:
        said += f"\nended after {RUN_S} seconds"
    elif code == -signal.SIGXFSZ:
        said += f"\nprinted or wrote more than {WRITTEN >> 20} MB; remove the prints"
    elif code < 0:
        said += f"\nended by signal {-code} ({signal.Signals(-code).name})"
    elif verdict != b"n":
        said += "\nended before its checker did"
    return False, said, None


def grade_sheet(handed_in):
    """The result of the last sheet of the folder. The sheet for practice does not count: its answers are printed
    in the lessons."""
    folder = (handed_in or ROOT / "build").resolve()
    texts = {file: file.read_text(errors="replace") for file in files_below(folder, sheet.FILES)}
    sheets = [file for file in texts if sheet.name_of(texts[file]) != "practice"]
    points, said = sheet.grade(texts[sheets[-1]]) if sheets else (
        0, "no sheet was handed in" + ", but the one for practice" * bool(texts))
    if len(sheets) > 1:
        said = f"{len(sheets)} sheets; graded is {sheets[-1].relative_to(folder)}\n{said}"
    return {"name": "two_dimensions", "score": points, "max_score": sum(sheet.POINTS.values()), "said": said,
            "seconds": 0}


def write_results(out, results, seed):
    suite = xml.Element("testsuite", name="exercises", tests=str(len(results)),
                        failures=str(sum(r["score"] < r["max_score"] for r in results)))
    tests, board = [], []
    for r in results:
        case = xml.SubElement(suite, "testcase", classname="exercises", name=r["name"],
                              time=f"{r['seconds']:.3f}")
        printable = "".join(c for c in r["said"] if c.isprintable() or c in "\n\t")
        right = r["score"] == r["max_score"]
        if not right:
            xml.SubElement(case, "failure", message="not right").text = printable
        tests.append({"name": r["name"], "score": r["score"], "max_score": r["max_score"],
                      "output": printable, "status": "passed" if right else "failed"})
        if r.get("number") is not None:
            board.append({"name": f"{r['name']}: exposed ms", "value": r["number"], "order": "asc"})
    xml.ElementTree(suite).write(out / "junit.xml", encoding="unicode", xml_declaration=True)
    score = sum(t["score"] for t in tests)
    (out / "results.json").write_text(json.dumps(
        {"score": score, "output": f"Random cases of seed {seed}.", "tests": tests, "leaderboard": board},
        indent=1))
    return score


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("out", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--from", dest="handed_in", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 30))
    parser.add_argument("--only", default="")
    parser.add_argument("--sheet", action="store_true")
    arguments = parser.parse_args()
    build, out = arguments.build, arguments.out
    for old in ("results.json", "junit.xml"):
        (out / old).unlink(missing_ok=True)  # else they could be taken for those of this run
    adopt_orphans()
    if arguments.sheet and sheet.answers is None:
        sys.exit("make grade: a handout does not have the formulas of the sheet")
    if arguments.handed_in and not arguments.handed_in.is_dir():
        sys.exit(f"make grade: FROM is to name a folder, got '{arguments.handed_in}'")
    patterns = ["*_exercise.cpp"] + [sheet.FILES] * arguments.sheet
    if arguments.handed_in and not any(files_below(arguments.handed_in, pattern) for pattern in patterns):
        sys.exit(f"make grade: the folder '{arguments.handed_in}' has no file {' or '.join(patterns)}")
    numbers = [number for number, _ in lessons(build)]
    only = [number.strip().zfill(2) for number in arguments.only.split(",") if number.strip()]
    unknown = [number for number in only if number not in numbers]
    if unknown:
        sys.exit(f"make grade: --only is to name lessons, got '{arguments.only}'; there are {' '.join(numbers)}")
    out.mkdir(parents=True, exist_ok=True)
    twice = copy_tree(out, arguments.handed_in)
    if not (out / "secret").exists():
        (out / "secret").write_text(secrets.token_hex(8))
    with open(out / "configure.log", "wb") as log:
        if call(["cmake", str(build), f"-DNANOFSDP_GRADE={out}"], COMPILE_S, stdout=log,
                stderr=subprocess.STDOUT) != 0:
            sys.exit(f"make grade: CMake failed; see {out}/configure.log")
    results = []
    for number, name in lessons(build):
        if only and number not in only:
            continue
        begin = time.monotonic()
        (out / "bin" / f"graded_{number}").unlink(missing_ok=True)
        said = compile_one(build, out, number, out / "compile.log")
        right, exposed = False, None
        if said is None:
            right, said, exposed = run_one(out / "bin" / f"graded_{number}", arguments.seed)
        results.append({"name": f"{number} {name}", "score": POINTS if right else 0, "max_score": POINTS,
                        "said": twice.get(number, "") + said.strip(),
                        "seconds": time.monotonic() - begin, "number": exposed})
        print(f"{number} {name:<22} {results[-1]['score']:>3} of {POINTS}", flush=True)
    if arguments.sheet:
        results.append(grade_sheet(arguments.handed_in))
        print(f"{'two_dimensions':<25} {results[-1]['score']:>3} of {results[-1]['max_score']}")
    score = write_results(out, results, arguments.seed)
    print(f"{score} of {sum(r['max_score'] for r in results)} points: {out}/results.json, {out}/junit.xml")


if __name__ == "__main__":
    main()
