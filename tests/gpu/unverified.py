"""Which kernels have changed since they last ran on a GPU: a line a file, for CI's log.

    python3 tests/gpu/unverified.py [DIRECTORY OF RESULTS]

A file has been verified if the results of a run name its hash (git's, of a blob) and the step that
runs it passed there. A notice and no test: it never fails.
"""

import hashlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def hash_of(file):
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def kernels(root=ROOT):
    """{path: hash} of all code that only a GPU runs."""
    files = [p for p in sorted((root / "src").rglob("*"))
             if p.suffix in (".cu", ".cuh") or p.name.startswith("nccl")]
    return {str(p.relative_to(root)): hash_of(p) for p in files}


def step_that_runs(path):
    return "nccl" if pathlib.Path(path).name.startswith("nccl") else "operators"


def notices(now, results):
    """Lines about `now`, {path: hash}, of which `results` say what has run."""
    last = {}  # the newest run of a path, of whatever hash
    verified = set()
    for result in sorted(results, key=lambda r: r["date"]):
        for path, found in result["kernels"].items():
            if result["steps"].get(step_that_runs(path), {}).get("exit") == 0:
                last[path] = result
                verified.add((path, found))
    if now and not last:
        return [f"never verified on a GPU: {len(now)} files of kernels and NCCL"]
    lines = []
    for path, found in now.items():
        if (path, found) in verified:
            continue
        run = last.get(path)
        lines.append(f"changed since a GPU has run it ({run['gpu']}, {run['date']}): {path}" if run
                     else f"never verified on a GPU: {path}")
    return lines


def read(directory):
    return [json.loads(file.read_text()) for file in sorted(directory.glob("*.json"))]


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results"
    for line in notices(kernels(), read(directory)):
        print("notice:", line)
