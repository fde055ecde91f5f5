"""The faults: what is done to a run, and what it must answer."""

import os
import signal
import time
from contextlib import contextmanager

import files
import world
from kind import Kind
from trial import ALL_COME, ENDS, SAVES, SHORT, Miss, Trial

LIMIT_ON_SENDING = 90  # seconds that a slow run may take


# A rank that comes when rank 0 has gone already cannot hear why.
TOO_LATE = r"found nobody|not let in by rank 0 at [^ ]*: rank 0 was lost"


def killed_rank(t: Trial) -> None:
    t.start()
    victim = t.any_rank()
    t.rank_pids()
    t.wait_a_moment()
    t.send(victim, signal.SIGKILL)
    if t.by_hand:
        t.ends(rf"rank {victim} (was lost|did not come)|{TOO_LATE}", but=[victim])
    else:
        t.ends(rf"rank {victim} was killed by signal 9 \(SIGKILL\)")


def stopped_rank(t: Trial) -> None:
    t.start()
    victim = t.any_rank()
    t.rank_pids()
    t.wait_a_moment()
    t.send(victim, signal.SIGSTOP)
    if t.by_hand:  # nobody ends it but who stopped it; awake, it must see that it is alone
        stopped = t.started[victim]
        t.wait(ALL_COME, aside=[stopped])
        os.kill(stopped.pid, signal.SIGCONT)
    t.ends(rf"rank {victim}\b", but=[victim], within=ALL_COME)


def connections_of(t: Trial, pid: int) -> list:
    t.until(lambda: world.connections(pid), "a rank without connections")
    return world.connections(pid)


def at_other_end(pids: list[int], connection) -> int:
    """Whose it is; the one that has it already, if the other has not."""
    _, local, remote = connection
    for rank, pid in enumerate(pids):
        if any((there, here) == (local, remote) for _, here, there in world.connections(pid)):
            return rank
    return -1


def trains_on(t: Trial) -> bool:
    """Whether the run goes on as if nothing had happened, over two more checkpoints."""
    enough = t.iterations() + 2 * SAVES + 2
    until = time.monotonic() + ENDS
    while len(t.running()) == len(t.started) and time.monotonic() < until:
        if t.iterations() > enough:
            return True
        time.sleep(0.005)
    return False


def closed_connection(t: Trial) -> None:
    """One after the other, until it is one that is in use. Both who had it know: either may be
    named."""
    t.start()
    victim, pids = t.any_rank(), t.rank_pids()
    t.wait_a_moment()
    named = {victim}
    found = connections_of(t, pids[victim])
    t.rng.shuffle(found)
    for connection in found:
        named.add(at_other_end(pids, connection))
        t.strikes()
        world.shut_down(pids[victim], connection[0])
        if not trains_on(t):
            break
    t.ends(rf"rank ({'|'.join(map(str, named))})\b|{TOO_LATE}")


def isolated_rank(t: Trial) -> None:
    """All its connections are closed, at once."""
    t.start()
    victim, pids = t.any_rank(), t.rank_pids()
    t.wait_a_moment()
    found = connections_of(t, pids[victim])
    t.strikes()
    with stands_still(pids[victim]):
        for descriptor, _, _ in found:
            world.shut_down(pids[victim], descriptor)
    t.ends(rf"rank {victim}\b|{TOO_LATE}")


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
    t.ends(full_disk_says("--metrics"))


def full_trace(t: Trial) -> None:
    t.start(SHORT, options=["--trace=/dev/full"])
    t.ends(r"--trace.*'/dev/full'", within=60)


def full_stdout(t: Trial) -> None:
    t.start(stdout="/dev/full")
    t.ends(full_disk_says("standard output"))


def full_out_dir(t: Trial) -> None:
    """A disk too small for any checkpoint, or one that fills up at a random moment."""
    size = (t.healthy().out_dir / "model.safetensors").stat().st_size
    fills_up = t.rng.random() < 0.5
    # A checkpoint is three times as large as the model, and there may be three of them.
    room = 16 * size if fills_up else t.rng.randrange(4096, size)
    with world.SmallDisk(t.out_dir, room) as disk:
        t.start()
        if fills_up:
            t.wait_a_moment()
            t.strikes()
            disk.fill()
        t.ends(full_disk_says("out/(checkpoint|model|run)"), within=60)


def file_too_large(t: Trial) -> None:
    """A limit on the size of files, as shells set it: by default a signal comes with it."""
    size = (t.healthy().out_dir / "model.safetensors").stat().st_size
    t.start(file_size=t.rng.randrange(size // 2, size))
    t.ends(full_disk_says("out/(checkpoint|model|run)"), within=60)


QUICK = ("small", "medium")
KINDS = [
    Kind("SIGKILL", killed_rank, 6),
    Kind("SIGSTOP", stopped_rank, 3),
    Kind("closed connection", closed_connection, 4),
    Kind("isolated rank", isolated_rank, 3),
    Kind("slow link", slow_link, isolated=True, shapes=QUICK),
    Kind("halting ranks", halting_ranks, shapes=QUICK),
    Kind("full disk: metrics", full_metrics),
    Kind("full disk: trace", full_trace),
    Kind("full disk: stdout", full_stdout),
    Kind("full disk: out_dir", full_out_dir, 2, isolated=True),
    Kind("full disk: limit", file_too_large),
]
