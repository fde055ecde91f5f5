"""What the compiler makes of the kernels of attention and of the loss: kernels.md holds the table.

    python3 tests/gpu/kernels_test.py           compares; exit code 77 where no nvcc is
    python3 tests/gpu/kernels_test.py --write   writes the table anew

Another release of nvcc may give other registers. With any release no kernel spills or has a stack, so
no loop touches local memory, with dropout or without. Where cuobjdump is, the code is read too: kernels
of attention multiply on tensor cores (HMMA) and copy without waiting (LDGSTS), and no instruction is one
of local memory (LDL, STL).
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
ARCHITECTURES = ["80", "90"]
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
        shared = rows * width * 2 + (3 * walk * KNOWN if stem == "keys" else 0)
        return f"flash/{stem}", width, "yes" if plan[2] == "1" else "no", shared
    if stem == "cross_entropy" and "classify" in symbol:
        return "cross_entropy, both", "", "", 0
    return None


def compile_all(nvcc, folder):
    """{(architecture, kernel): (registers, spilled bytes, bytes of its stack)}, and the object files."""
    found, objects = {}, {}
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]
    for file in FILES:
        objects[file] = str(folder / (pathlib.Path(file).stem + ".o"))
        told = run(nvcc, "-std=c++20", "-O3", "-DNDEBUG", "-Isrc", "-c", f"src/ops/{file}", "-o",
                   objects[file], *codes, "-Xptxas", "-v")
        for symbol, architecture, said in re.findall(
                r"Compiling entry function '(\S+)' for '(sm_\d+)'(.*?Used \d+ registers)", told, re.DOTALL):
            if kernel := kernel_of(file, symbol):
                stack, stores, loads = (int(x) for x in re.search(
                    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", said).groups())
                registers = int(re.search(r"Used (\d+) registers", said)[1])
                found[architecture, kernel] = registers, stores + loads, stack
    return found, objects


def table_of(release, found):
    lines = [f"nvcc {release}. `python3 tests/gpu/kernels_test.py --write` writes this table.", "",
             "| GPU | kernel | head | dropout | registers | bytes spilled, stores and loads | shared memory, bytes |",
             "|---|---|---|---|---|---|---|"]
    for (gpu, (name, width, dropout, shared)), (registers, spilled, _) in sorted(found.items(), key=str):
        lines.append(f"| {gpu} | {name} | {width} | {dropout} | {registers} | {spilled} | {shared:,} |")
    return "\n".join(lines) + "\n"


def read_code(cuobjdump, objects):
    """What is wrong with the code of attention's kernels, a line each."""
    wrong, read = [], 0
    for file, target in objects.items():
        told = run(cuobjdump, "--dump-sass", target, path=str(pathlib.Path(cuobjdump).parent))
        for code in told.split("Function : ")[1:]:
            kernel = kernel_of(file, code[:code.index("\n")])
            if kernel is None or kernel[1] == "":
                continue
            read += 1
            for instruction in ("HMMA", "LDGSTS"):
                if instruction not in code:
                    wrong.append(f"{kernel}: no {instruction}")
            if touched := re.search(r"\b(LDL|STL)\b.*?;", code):
                wrong.append(f"{kernel}: local memory: {touched[0]}")
    if read != 12 * len(ARCHITECTURES):
        wrong.append(f"the code of {read} kernels of attention was found")
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
    wrong += [f"{gpu} {name} {width} spills {spilled} bytes and has a stack of {stack}"
              for (gpu, (name, width, *_)), (_, spilled, stack) in found.items() if spilled or stack]
    before = TABLE.read_text()
    if before.splitlines()[0] == table.splitlines()[0] and before != table:
        wrong.append(f"kernels.md differs from what nvcc makes now:\n{table}")
    print("\n".join(wrong) or f"{len(found)} kernels are as kernels.md says" +
          ("" if cuobjdump else "; no cuobjdump: their code was not read"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
