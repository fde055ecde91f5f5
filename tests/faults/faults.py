"""The faults: what is done to a run, and what it must answer."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import files
import world
from trial import ENDS, PATIENCE, SHORT, Miss, Trial

LIMIT_ON_SENDING = 90  # seconds that a slow run may take


def killed_rank(t: Trial) -> None:
    t.start()
    victim = t.any_rank()
    t.rank_pids()
    t.wait_a_moment()
    t.send(victim, signal.SIGKILL)
    t.ends(rf"lost rank {victim}\b" if t.by_hand else
           rf"rank {victim} was killed by signal 9 \(SIGKILL\)", but=[victim])


def stopped_rank(t: Trial) -> None:
    t.start(options=[f"--timeout={PATIENCE}"])
    victim = t.any_rank()
    t.rank_pids()
    t.wait_a_moment()
    t.send(victim, signal.SIGSTOP)
    if t.by_hand:  # nobody ends it but who stopped it; awake, it must see that it is alone
        stopped = t.started[victim]
        t.wait(PATIENCE + ENDS, aside=[stopped])
        os.kill(stopped.pid, signal.SIGCONT)
    t.ends(rf"rank {victim}\b", but=[victim], within=PATIENCE + ENDS)


def connections_of(t: Trial, victim: int) -> list:
    pid = t.rank_pids()[victim]
    until = time.monotonic() + ENDS
    while time.monotonic() < until:
        if found := world.connections(pid):
            return [(pid, descriptor) for descriptor, _, _ in found]
        time.sleep(0.001)
    raise Miss("a rank without connections" + t.said())


def closed_connections(t: Trial) -> None:
    """One of them, or all."""
    t.start()
    victim = t.any_rank()
    t.rank_pids()
    t.wait_a_moment()
    found = connections_of(t, victim)
    t.strikes()
    for pid, descriptor in found if t.rng.random() < 0.5 else [t.rng.choice(found)]:
        try:
            world.shut_down(pid, descriptor)
        except OSError:  # another end has closed it by now
            pass
    t.ends(rf"rank {victim}\b")


# ---- slow is not broken

def same_as(t: Trial, healthy: "Trial") -> None:
    if files.losses(t.metrics) != files.losses(healthy.metrics):
        raise Miss("other losses than over a fast link")
    model = "model.safetensors"
    if (t.out_dir / model).read_bytes() != (healthy.out_dir / model).read_bytes():
        raise Miss("another model than over a fast link")


def until_trained(t: Trial):
    """Yields until the last evaluation is written: the sample that follows is not slowed down."""
    until = time.monotonic() + LIMIT_ON_SENDING
    while t.running() and time.monotonic() < until and not t.trained(SHORT):
        yield


def slow_link(t: Trial) -> None:
    rate = {"small": 40, "medium": 200}[t.setting.shape]
    with world.SlowLoopback(t.rng.randrange(rate, 2 * rate)):
        t.start(SHORT)
        for _ in until_trained(t):
            time.sleep(0.01)
    t.completes(LIMIT_ON_SENDING)
    same_as(t, t.healthy())


def halting_ranks(t: Trial) -> None:
    """Every now and then one of the ranks stands still, for less than others wait."""
    t.start(SHORT)
    pids = t.rank_pids()
    for _ in until_trained(t):
        with stands_still(t.rng.choice(pids)):
            time.sleep(t.rng.uniform(0.01, 0.2))
        time.sleep(t.rng.uniform(0.01, 0.1))
    t.completes(LIMIT_ON_SENDING)
    same_as(t, t.healthy())


@contextmanager
def stands_still(pid: int):
    for number in (signal.SIGSTOP, signal.SIGCONT):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
        if number == signal.SIGSTOP:
            yield


# ---- a full disk

def full_disk_says(name: str) -> str:
    return rf"{name}.*(No space left on device|File too large)"


def full_metrics(t: Trial) -> None:
    t.start(options=["--metrics=/dev/full"])
    t.ends(full_disk_says("/dev/full"))


def full_trace(t: Trial) -> None:
    t.start(SHORT, options=["--trace=/dev/full"])
    t.ends(full_disk_says("/dev/full"), within=60)


def full_stdout(t: Trial) -> None:
    t.start(stdout="/dev/full")
    t.ends(full_disk_says("(stdout|standard output)"))


def full_out_dir(t: Trial) -> None:
    """A disk too small for any checkpoint, or one that fills up at a random moment."""
    size = (t.healthy().out_dir / "model.safetensors").stat().st_size
    fills_up = t.rng.random() < 0.5
    room = 4 * size if fills_up else t.rng.randrange(4096, size)
    with world.SmallDisk(t.out_dir, room) as disk:
        t.start()
        if fills_up:
            t.wait_a_moment()
            t.strikes()
            disk.fill()
        t.ends(full_disk_says("model.safetensors"), within=60)


def file_too_large(t: Trial) -> None:
    """A limit on the size of files, as shells set it: by default a signal comes with it."""
    size = (t.healthy().out_dir / "model.safetensors").stat().st_size
    t.start(file_size=t.rng.randrange(size // 2, size))
    t.ends(full_disk_says("model.safetensors"), within=60)


def full_temporary_directory(t: Trial) -> None:
    """The launcher's own."""
    with world.SmallDisk(t.folder / "tmp", 16384) as disk:
        disk.fill()
        t.start()
        t.ends(r"rendezvous.*TMPDIR|TMPDIR")
        if left := [p.name for p in disk.path.iterdir() if p.name != "filler"]:
            raise Miss(f"files left: {left}")


@dataclass(frozen=True)
class Kind:
    name: str
    run: Callable[[Trial], None]
    share: int = 1        # of the faults
    launcher: bool = True
    by_hand: bool = True
    isolated: bool = False  # needs a network and mounts of its own
    shapes: tuple = ("small", "medium", "large")

    def modes(self) -> list[bool]:
        return [False] * self.launcher + [True] * self.by_hand


QUICK = ("small", "medium")
KINDS = [
    Kind("SIGKILL", killed_rank, 6),
    Kind("SIGSTOP", stopped_rank, 3),
    Kind("closed connections", closed_connections, 6),
    Kind("slow link", slow_link, isolated=True, shapes=QUICK),
    Kind("halting ranks", halting_ranks, shapes=QUICK),
    Kind("full disk: metrics", full_metrics),
    Kind("full disk: trace", full_trace),
    Kind("full disk: stdout", full_stdout),
    Kind("full disk: out_dir", full_out_dir, 2, isolated=True),
    Kind("full disk: limit", file_too_large),
    Kind("full disk: TMPDIR", full_temporary_directory, by_hand=False, isolated=True),
]
