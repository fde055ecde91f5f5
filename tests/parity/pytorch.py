"""Which PyTorch `make parity` compares with: the ones found, or one installed for it."""

import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).parent
PRIVATE = HERE.parents[1] / "build" / "torch"
OLDEST = (1, 13)
PROBE = "import torch; from torch.distributed import is_gloo_available as g; print(torch.__version__, int(g()))"
HAS_FSDP2 = "from torch.distributed.fsdp import fully_shard"


def stop(message):
    sys.exit(f"parity: {message}")


def install():
    """A virtual environment with a current PyTorch, in build/torch."""
    print(f"parity: installing PyTorch into {PRIVATE}: about 3 GB to fetch, 6 GB on disk (measured with 2.15 and\n"
          "        its CUDA libraries). PIP_INDEX_URL may name an index with smaller, CPU-only builds, such as\n"
          "        PyTorch's own. `rm -r build/torch` removes it.", flush=True)
    try:
        venv.create(PRIVATE, with_pip=True)
    except subprocess.CalledProcessError:
        stop("this python3 cannot make a virtual environment (Debian: apt-get install python3-venv)")
    done = subprocess.run([PRIVATE / "bin" / "python", "-m", "pip", "install", "torch", "numpy"])
    if done.returncode != 0:
        stop(f"pip could not install PyTorch (exit code {done.returncode}; its message is above)")


def says(python, code):
    """What the code prints under this interpreter; None if it fails."""
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.split() if done.returncode == 0 else None


def runs_under(python):
    """(label, command) of each PyTorch run under an interpreter, and why there are not more."""
    found = says(python, PROBE)
    if found is None:
        return [], f"{python}: no PyTorch"
    version, gloo = found
    if tuple(int(x) for x in version.split(".")[:2]) < OLDEST:
        return [], f"{python}: PyTorch {version} is older than {OLDEST[0]}.{OLDEST[1]}"
    base = [python, str(HERE / "reference.py")]
    single = (f"PyTorch {version}, 1 process", base)
    if gloo != "1":
        return [single], f"{python}: PyTorch {version} has no Gloo, so no DDP and no FSDP2"
    ddp = (f"PyTorch {version}, DDP, 2 ranks", [*base, "--how=ddp", "--ranks=2"])
    if says(python, HAS_FSDP2) is None:
        return [single, ddp], f"{python}: PyTorch {version} has no FSDP2 (fully_shard)"
    return [single, ddp, (f"PyTorch {version}, FSDP2, 2 ranks", [*base, "--how=fsdp2", "--ranks=2"])], ""


def runs(pythons):
    """All runs under the interpreters named; if none is, under the first usual one with PyTorch."""
    found, complaints = [], []
    for python in pythons or (str(PRIVATE / "bin" / "python"), "python3", "/usr/bin/python3"):
        more, complaint = runs_under(python)
        found += more
        complaints += [complaint] if complaint and (pythons or not more) else []
        if found and not pythons:
            break
    if not found:
        stop("; ".join(complaints) + ". Install PyTorch (Debian: python3-torch), name its interpreter with "
             "PYTHON=..., or let `make parity TORCH=install` put one into build/torch")
    for complaint in complaints if pythons else ():
        print("note:", complaint)
    return found
