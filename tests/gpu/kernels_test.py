"""What the compiler makes of the kernels of attention and of the loss: kernels.md holds the table.

    python3 tests/gpu/kernels_test.py           compares; exit code 77 where no nvcc is
    python3 tests/gpu/kernels_test.py --write   writes the table anew

Another release of nvcc may give other registers, so it is asked for what must hold with any: that no
kernel spills more than the table's does by 32 bytes. Where cuobjdump is, the code is read too: kernels
of attention multiply on tensor cores (HMMA) and copy without waiting (LDGSTS), and without dropout no
innermost loop that multiplies touches local memory.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TABLE = HERE / "kernels.md"
FILES = ["flash/forward.cu", "flash/queries.cu", "flash/keys.cu", "cross_entropy.cu"]
TILES = {"forward": 1, "queries": 2, "keys": 2}  # of its own rows that a block has in shared memory
KNOWN = 8  # bytes of what is known of a query


def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/local/cuda/bin")


def run(*command, path=""):
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if done.returncode != 0:
        sys.exit(f"kernels: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def kernel_of(file, symbol):
    """(kernel, width, dropout, bytes of shared memory that a launch asks for), or None."""
    stem = pathlib.Path(file).stem
    plan = re.search(r"PlanI((?:L[jb]\d+E)+)E+Lb([01])E", symbol)
    if plan:
        numbers = [int(x) for x in re.findall(r"L[jb](\d+)E", plan[1])]
        width, warps, strips, walk = numbers[:4]
        rows = TILES[stem] * 16 * strips * warps + 4 * walk
        shared = rows * width * 2 + (2 * walk * KNOWN if stem == "keys" else 0)
        return f"flash/{stem}", width, "yes" if plan[2] == "1" else "no", shared
    if stem == "cross_entropy" and "classify" in symbol:
        return "cross_entropy, both", "", "", 0
    return None


def compile_all(nvcc, folder):
    """{kernel: [registers, spilled bytes]}, and the object files."""
    found, objects = {}, {}
    for file in FILES:
        objects[file] = str(folder / (pathlib.Path(file).stem + ".o"))
        told = run(nvcc, "-std=c++20", "-O3", "-DNDEBUG", "-Isrc", "-c", f"src/ops/{file}", "-o",
                   objects[file], "-gencode=arch=compute_90,code=sm_90", "-Xptxas", "-v")
        entries = re.split(r"Compiling entry function '", told)[1:]
        for entry in entries:
            if kernel := kernel_of(file, entry[:entry.index("'")]):
                spilled = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", entry)
                registers = re.search(r"Used (\d+) registers", entry)
                found[kernel] = [int(registers[1]), int(spilled[1]) + int(spilled[2])]
    return found, objects


def table_of(release, found):
    lines = [f"sm_90, nvcc {release}. `python3 tests/gpu/kernels_test.py --write` writes this table.", "",
             "| kernel | head | dropout | registers | bytes spilled, stores and loads | shared memory, bytes |",
             "|---|---|---|---|---|---|"]
    for (name, width, dropout, shared), (registers, spilled) in sorted(found.items(), key=str):
        lines.append(f"| {name} | {width} | {dropout} | {registers} | {spilled} | {shared:,} |")
    return "\n".join(lines) + "\n"


def innermost_loops(code):
    """The lines of every loop that multiplies and has no other such loop in it."""
    lines = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(.*?);", code)
    loops = []
    for address, text in lines:
        jump = re.search(r"BRA(?:\.\w+)* (?:!?UP?\w+, )?0x([0-9a-f]+)", text)
        if jump and int(jump[1], 16) < int(address, 16):
            begin, end = int(jump[1], 16), int(address, 16)
            body = [t for a, t in lines if begin <= int(a, 16) <= end]
            if any("HMMA" in t for t in body):
                loops.append((begin, end, body))
    return [body for begin, end, body in loops
            if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e, _ in loops)]


def read_code(cuobjdump, objects):
    """What is wrong with the code of attention's kernels, a line each."""
    wrong = []
    for file, target in objects.items():
        told = run(cuobjdump, "--dump-sass", target, path=str(pathlib.Path(cuobjdump).parent))
        for code in told.split("Function : ")[1:]:
            kernel = kernel_of(file, code[:code.index("\n")])
            if kernel is None or kernel[1] == "":
                continue
            for instruction in ("HMMA", "LDGSTS"):
                if instruction not in code:
                    wrong.append(f"{kernel}: no {instruction}")
            loops = innermost_loops(code)
            if not loops:
                wrong.append(f"{kernel}: no loop that multiplies")
            touched = [t for body in loops for t in body if re.search(r"\b(LDL|STL)\b", t)]
            if touched and kernel[2] == "no":
                wrong.append(f"{kernel}: local memory in an innermost loop: {touched[0]}")
    return wrong


def main():
    nvcc = find("nvcc")
    if nvcc is None:
        print("skipped: no nvcc")
        return 77
    release = re.search(r"release (\S+),", run(nvcc, "--version"))[1]
    with tempfile.TemporaryDirectory() as folder:
        found, objects = compile_all(nvcc, pathlib.Path(folder))
        cuobjdump = find("cuobjdump")
        wrong = read_code(cuobjdump, objects) if cuobjdump else []
    table = table_of(release, found)
    if "--write" in sys.argv:
        TABLE.write_text(table)
    before = TABLE.read_text()
    if before.splitlines()[0] == table.splitlines()[0]:
        if before != table:
            wrong.append(f"kernels.md differs from what nvcc makes now:\n{table}")
    else:
        spills = {row[:3]: int(row[4]) for row in map(
            lambda line: tuple(x.strip() for x in line.strip("|").split("|")), before.splitlines()[4:])}
        for (name, width, dropout, _), (_, spilled) in found.items():
            if spilled > spills.get((name, str(width), dropout), 0) + 32:
                wrong.append(f"{name} {width} spills {spilled} bytes")
    print("\n".join(wrong) or f"{len(found)} kernels are as kernels.md says" +
          ("" if cuobjdump else "; no cuobjdump: their code was not read"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
