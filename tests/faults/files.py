"""What a run writes: which of its files are due, and whether they are whole."""

import json
import math
import re
import struct
from array import array
from pathlib import Path

DUE = {"out/model.safetensors", "out/run.svg", "metrics.jsonl", "trace.json"}
CHECKPOINT = re.compile(
    r"out/checkpoint(\.new|\.previous)?(/manifest\.json|/rank_\d_of_\d\.safetensors)?")


def not_due(folder: Path) -> list[str]:
    """Files and directories under a run's folder that nobody asked for. A file has a temporary name
    while it is written: a process that is killed then leaves it. The file of the lock stays."""
    left = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        name = name.removesuffix(".tmp")
        ours = name in ("tmp", "out", "out/filler", "out/run.lock") or name.startswith(("stdout.", "stderr.", "given."))
        if not ours and name not in DUE and not CHECKPOINT.fullmatch(name):
            left.append(name)
    return left


def last_checkpoint(out_dir: Path) -> int:
    """The iteration of the last whole checkpoint."""
    for name in ("checkpoint.new", "checkpoint"):
        if (manifest := out_dir / name / "manifest.json").exists():
            return int(json.loads(manifest.read_text())["metadata"]["iteration"])
    raise ValueError("no whole checkpoint")


def checkpoint_fault(out_dir: Path) -> str | None:
    """What is wrong with the checkpoints, or None: those with a manifest are whole, and once there
    has been one there is one."""
    manifests = list(out_dir.glob("checkpoint*/manifest.json"))
    for manifest in manifests:
        for name, record in json.loads(manifest.read_text())["files"].items():
            path = manifest.parent / name
            if not path.exists() or path.stat().st_size != record["bytes"]:
                return f"{path} is not as {manifest} says"
    if (out_dir / "checkpoint.previous").exists() and not manifests:
        return "no whole checkpoint"
    return None


def model_fault(path: Path) -> str | None:
    """What is wrong with a model, or None: there is none, or it is whole."""
    if not path.exists():
        return None
    data = path.read_bytes()
    try:
        size = struct.unpack_from("<Q", data)[0]
        header = json.loads(data[8:8 + size])
    except (struct.error, ValueError) as error:
        return f"no header ({error})"
    info = json.loads(header.pop("__metadata__")["nanofsdp"])
    end = 0
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        values = array("f", data[8 + size + begin:8 + size + end])
        if len(values) != math.prod(tensor["shape"]):
            return f"{name} is cut off"
        if not all(map(math.isfinite, values)) or not any(values):
            return f"{name} holds no weights"
    if 8 + size + end != len(data):
        return f"{len(data)} bytes, expected {8 + size + end}"
    return None if info["iter_num"] > 0 else "of no iteration"


def losses(metrics: Path) -> list[dict]:
    """The lines of a metrics file without what depends on the clock; only whole lines may be."""
    lines = metrics.read_text().split("\n")
    if lines.pop() != "":
        raise ValueError("the last line is not whole")
    kept = ("iter", "loss", "grad_norm", "lr", "train_loss", "val_loss", "bytes_sent",
            "bytes_received")
    return [{k: v for k, v in json.loads(line).items() if k in kept} for line in lines]
