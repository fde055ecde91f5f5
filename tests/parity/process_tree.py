"""Runs a command, alone, and says how much memory its processes had at their peak."""

import os
import pathlib
import subprocess
import tempfile
import time


def tree(pid):
    """The process and all that descend from it, as far as they are still there."""
    found = [pid]
    try:
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                found += tree(int(child))
    except OSError:
        pass  # it ended meanwhile
    return found


def peak_resident(pid):
    """Bytes: VmHWM, which the kernel keeps; 0 of a process that has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def run(command, environment, patience=30):
    """(exit code, output, {pid: peak bytes}). Returns when every process it started has gone."""
    peaks = {}
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, env={**os.environ, **environment}, stdout=output, stderr=output) as process:
            while process.poll() is None:
                for pid in tree(process.pid):
                    peaks[pid] = max(peaks.get(pid, 0), peak_resident(pid))
                time.sleep(0.03)
        deadline = time.monotonic() + patience
        while any(peak_resident(pid) for pid in peaks) and time.monotonic() < deadline:
            time.sleep(0.03)
        output.seek(0)
        return process.returncode, output.read(), peaks
