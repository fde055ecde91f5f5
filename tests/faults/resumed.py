"""Runs that are killed after their first checkpoint, at any moment, and go on from the last one."""

import os
import signal

import files
from kind import Kind
from trial import ENDS, SAVES, Miss, Trial

MORE = 6  # iterations of the second run


def killed_and_resumed(t: Trial) -> None:
    """A rank, or all of them at once; then the same command, with --init_from=resume."""
    dropout = "--dropout=0.1"
    t.start(options=[dropout])
    t.until(lambda: t.saved(SAVES), "no checkpoint")
    t.wait_a_moment()
    kill(t)
    t.wait(2 * ENDS)
    first = files.last_checkpoint(t.out_dir)
    t.again()
    t.start(first + MORE, options=[dropout, "--init_from=resume", f"--metrics={t.second_metrics}"])
    t.completes()
    if files.last_checkpoint(t.out_dir) != first + MORE:
        raise Miss("no checkpoint at the end")
    if (t.out_dir / "checkpoint.new").exists():
        raise Miss("a checkpoint that was interrupted is still there")
    compare(t, first)


def kill(t: Trial) -> None:
    pids = t.rank_pids()
    everyone = pids if t.by_hand else [t.started[0].pid]  # ranks die with their launcher
    t.strikes()
    for pid in everyone if t.rng.random() < 0.7 else [t.rng.choice(pids)]:
        os.kill(pid, signal.SIGKILL)


def compare(t: Trial, first: int) -> None:
    """Where both runs trained, the same numbers to the bit."""
    def by_iteration(metrics):
        return {(line["iter"], "loss" in line): line for line in files.losses(metrics)}
    before, after = by_iteration(t.metrics), by_iteration(t.second_metrics)
    if set(after) < {(i, True) for i in range(first, first + MORE)}:
        raise Miss(f"resumed at {first}, but trained {sorted(after)}")
    both = [key for key in after if key in before]
    if wrong := [key for key in both if before[key]["loss" if key[1] else "val_loss"] !=
                 after[key]["loss" if key[1] else "val_loss"]]:
        raise Miss(f"resumed at {first}, other losses at {wrong}")


KINDS = [Kind("SIGKILL, then resume", killed_and_resumed, 2, shapes=("small", "medium"))]
