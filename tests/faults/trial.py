"""One run of ranks with one fault in it: started, struck, and held to what must follow.

A run has 2 to 4 ranks, started by the launcher (`--ranks=N`) or by hand, a process a rank, as
torchrun would. Whatever the fault, all of it must end in time, say who was at fault, and leave
nothing: no process, no port, no file that is not due.
"""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import files
import world

STRATEGIES = ["no_shard", "shard_optimizer", "shard_gradients", "full_shard", "shard_grad_op",
              "hybrid_shard"]
SHAPES = {"small": (2, 2, 32, 16), "medium": (3, 3, 96, 32), "large": (2, 4, 384, 16)}
FOREVER = 1_000_000  # iterations: a run that only its fault ends
SHORT = 12           # iterations of a run that must come to its end
SAVES = 4            # iterations between two checkpoints
ENDS = 10.0          # seconds in which every rank must have ended, once its fault is known
PATIENCE = 2         # seconds that a rank waits for a message; five times that at the start
ALL_COME = 10 * PATIENCE + ENDS  # and as long again until all are connected


class Miss(Exception):
    """What a run did that it must not do."""


@dataclass(frozen=True)
class Setting:
    ranks: int
    strategy: str
    shape: str

    def options(self, iterations: int) -> list[str]:
        layers, heads, width, block = SHAPES[self.shape]
        hybrid = [f"--shard_size={self.ranks // 2}"] if self.strategy == "hybrid_shard" else []
        return [f"--n_layer={layers}", f"--n_head={heads}", f"--n_embd={width}",
                f"--block_size={block}", f"--strategy={self.strategy}", *hybrid, "--threads=1",
                f"--max_iters={iterations}", "--eval_iters=1", f"--eval_interval={SAVES}",
                "--log_interval=1"]


class Trial:
    """What faults are written with: start(), strike ..., then ends() or completes()."""

    def __init__(self, binary: Path, folder: Path, setting: Setting, by_hand: bool, rng: Random):
        self.binary, self.folder, self.setting = binary, folder, setting
        self.by_hand, self.rng = by_hand, rng
        self.mark = f"NANOFSDP_FAULT={folder.name}.{os.getpid()}"
        self.out_dir, self.metrics = folder / "out", folder / "metrics.jsonl"
        self.second_metrics = folder / "given.metrics.jsonl"
        self.port, self.started = None, []
        self.struck = time.monotonic()
        self.seconds = 0.0
        (folder / "tmp").mkdir(parents=True)

    # ---- starting

    def start(self, iterations: int = FOREVER, options=(), **how) -> None:
        if self.by_hand:
            for rank in range(self.setting.ranks):
                self.start_rank(rank, iterations, options, **how)
        else:
            self.launch("all", [f"--ranks={self.setting.ranks}",
                                *self.options(iterations, options)], **how)

    def start_rank(self, rank: int, iterations: int = FOREVER, options=(), name=None,
                   environment=None, **how):
        """Starts one by hand."""
        self.port = self.port or free_port(self.rng)
        ranks = str(self.setting.ranks)
        place = {"RANK": str(rank), "WORLD_SIZE": ranks, "LOCAL_RANK": str(rank),
                 "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": str(self.port), "NANOFSDP_TOKEN": self.folder.name}
        return self.launch(rank if name is None else name, self.options(iterations, options),
                           environment=place | (environment or {}), **how)

    def options(self, iterations: int, others) -> list[str]:
        """The later one of a name counts."""
        patience = [f"--timeout={PATIENCE}"] if iterations == FOREVER else []
        return [*self.setting.options(iterations), f"--out_dir={self.out_dir}",
                f"--metrics={self.metrics}", *patience, *others]

    def launch(self, name, options, environment=None, binary=None, stdout=None, file_size=None):
        """Starts one process: the launcher, or a rank."""
        def limit() -> None:
            if file_size is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        key, value = self.mark.split("=")
        with open(stdout or self.folder / f"stdout.{name}", "wb") as out, \
             open(self.folder / f"stderr.{name}", "wb") as err:
            process = subprocess.Popen(
                [binary or self.binary, "train", *options], cwd=self.folder, stdout=out,
                stderr=err, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=limit,
                env={"PATH": os.defpath, "TMPDIR": str(self.folder / "tmp"), key: value}
                | (environment or {}))
        process.name = name
        self.started.append(process)
        self.struck = time.monotonic()
        return process

    def again(self) -> None:
        """Forgets the processes that have ended: others are started in their place."""
        self.started, self.port = [], None

    # ---- striking

    def rank_pids(self) -> list[int]:
        """The ranks' processes, once all are there."""
        if self.by_hand:
            return [p.pid for p in self.started]
        until = time.monotonic() + ENDS
        while time.monotonic() < until:
            found = world.children(self.started[0].pid, self.mark)
            if len(found) == self.setting.ranks:
                return found
            if self.started[0].poll() is not None:
                break
            time.sleep(0.001)
        raise Miss("the ranks were not started" + self.said())

    def wait_for_port(self) -> None:
        """Until rank 0 listens."""
        self.until(lambda: self.port in world.listening_ports(), "rank 0 does not listen")

    def wait_until_joined(self) -> None:
        """Until every rank is past its hello: it has met the others."""
        self.until(self.metrics.exists, "no training")

    def until(self, happened, otherwise: str, within: float = ENDS) -> None:
        limit = time.monotonic() + within
        while not happened():
            if time.monotonic() > limit or not self.running():
                raise Miss(otherwise + self.said())
            time.sleep(0.001)

    def any_rank(self) -> int:
        return self.rng.randrange(self.setting.ranks)

    def wait_a_moment(self) -> None:
        """Until the fault: half of them while ranks meet and build, half while they train."""
        time.sleep(self.rng.uniform(0, 0.15) if self.rng.random() < 0.5 else
                   self.rng.uniform(0.15, 1.0))

    def send(self, rank: int, number: int) -> None:
        pid = self.rank_pids()[rank]
        self.strikes()
        os.kill(pid, number)

    def strikes(self) -> None:
        """The fault comes now; a run that has ended already has another one."""
        self.struck = time.monotonic()
        if any(p.poll() is not None for p in self.started):
            raise Miss("ended before its fault" + self.said())

    def iterations(self) -> int:
        return self.metrics.read_text().count('"loss"') if self.metrics.exists() else 0

    def trained(self, iteration: int) -> bool:
        """Whether the evaluation of that iteration is written."""
        return (self.metrics.exists() and
                f'{{"iter":{iteration},"train_loss"' in self.metrics.read_text())

    def saved(self, iteration: int) -> bool:
        """Whether rank 0 has told that it has saved the model of that iteration."""
        name = 0 if self.by_hand else "all"
        told = (self.folder / f"stdout.{name}").read_text().partition(f"step {iteration}:")[2]
        return "model.safetensors" in told

    # ---- what must follow

    def running(self) -> list[subprocess.Popen]:
        return [p for p in self.started if p.poll() is None]

    def wait(self, seconds: float, aside=()) -> None:
        until = time.monotonic() + seconds
        while left := [p for p in self.running() if p not in aside]:
            if time.monotonic() > until:
                states = ", ".join(f"{p.name} ({world.stat(p.pid)[:1]})" for p in left)
                raise Miss(f"still there after {seconds:.0f} s: {states}{self.said()}")
            time.sleep(0.002)
        self.seconds = time.monotonic() - self.struck

    def ends(self, says: str, but=(), within: float | None = None) -> None:
        """Every process ends with an error that `says` (a regular expression); those of the ranks
        in `but`, which were killed, need not say anything. A rank that was started by hand and has
        not met the others yet waits for them longer."""
        self.wait(within or (ALL_COME if self.by_hand else ENDS))
        for process in self.started:
            if process.name not in but:
                self.failed(process, says)
            elif process.returncode == 0:
                raise Miss(f"{process.name} ended with exit code 0{self.said()}")
        self.check_leftovers()

    def completes(self, within: float = 120) -> None:
        """Every process ends well."""
        self.wait(within)
        for process in self.started:
            self.succeeded(process)
        self.check_leftovers()

    def failed(self, process, says: str) -> None:
        if process.returncode == 0:
            raise Miss(f"{process.name} ended with exit code 0{self.said()}")
        if process.returncode < 0:
            raise Miss(f"{process.name} died of signal {-process.returncode}{self.said()}")
        self.check_message(process, says)

    def succeeded(self, process) -> None:
        if process.returncode != 0:
            raise Miss(f"{process.name} failed{self.said()}")

    def check_message(self, process, says: str) -> None:
        """One message, and of what led to it only lines that are indented."""
        lines = self.stderr(process).splitlines()
        first = [line for line in lines if not line.startswith(("  ", "nanofsdp: refused "))]
        if len(first) != 1 or not first[0].startswith("nanofsdp: "):
            raise Miss(f"{process.name}: not one message{self.said()}")
        if not re.search(says, first[0]):
            raise Miss(f"{process.name}: does not say /{says}/{self.said()}")

    def check_leftovers(self) -> None:
        if left := world.processes(self.mark):
            raise Miss(f"processes left: {left}")
        if ports := world.listening_ports() & (self.ports_of_interest()):
            raise Miss(f"ports left: {sorted(ports)}")
        if left := files.not_due(self.folder):
            raise Miss(f"files left: {', '.join(left)}")
        if wrong := files.model_fault(self.out_dir / "model.safetensors"):
            raise Miss(f"model.safetensors: {wrong}")
        if wrong := files.checkpoint_fault(self.out_dir):
            raise Miss(wrong)

    def ports_of_interest(self) -> set[int]:
        return set(range(65536)) if Trial.isolated else {self.port}

    isolated = False  # whether the network is ours alone

    def stderr(self, process) -> str:
        return (self.folder / f"stderr.{process.name}").read_text(errors="replace")

    def said(self) -> str:
        """What the processes have written, for the report of a miss."""
        return "".join(f"\n      {p.name} [{p.poll()}]: {self.stderr(p).rstrip() or '-'}"
                       for p in self.started)

    def clean_up(self) -> None:
        """Whatever was left: told already, now ended."""
        for number in (signal.SIGKILL, signal.SIGCONT):
            for pid in world.processes(self.mark):
                with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, number)
        for process in self.started:
            process.wait()


def free_port(rng: Random) -> int:
    while True:
        port = rng.randrange(20000, 60000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
