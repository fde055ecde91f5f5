"""Ranks that were started apart and do not fit together, and processes that belong to another run.

All by hand: the launcher starts ranks that are alike, and tells nobody where they meet.
"""

import time

from faults import QUICK, TOO_LATE, same_as
from kind import Kind
from trial import ALL_COME, ENDS, SHORT, STRATEGIES, Trial

# What one rank may have otherwise. Where one changes which collectives there are, so much the
# worse: it must be told all the same, and not by a hang.
OTHER_SIZES = ["--batch_size=24", "--block_size=8", "--n_layer=4", "--n_embd=192", "--n_head=1",
               "--gradient_accumulation_steps=2"]
OTHER_OPTIONS = ["--learning_rate=0.002", "--max_iters=11", "--seed=7", "--dropout=0.1",
                 "--bias=True", "--beta1=0.8", "--beta2=0.9", "--weight_decay=0", "--grad_clip=0",
                 "--warmup_iters=1", "--lr_decay_iters=500", "--min_lr=0.0005", "--decay_lr=False",
                 "--eval_interval=3", "--eval_iters=2", "--log_interval=2", "--eval_only=True",
                 "--param_dtype=bfloat16", "--reduce_dtype=bfloat16", "--no_sync=True",
                 "--recompute=True", "--init_order=fsdp", "--forward_prefetch=0",
                 "--backward_prefetch=none", "--threads=2", "--timeout=3", "--out_dir=",
                 "--trace=trace.json", "--transport=gloo"]
WRONG_OPTIONS = ["--n_embd=31", "--no_such_option=1", "--ranks=7", "--backend=local",
                 "--text=nowhere.txt"]


def start_with_one_other(t: Trial, victim: int, options=(), **own) -> None:
    for rank in range(t.setting.ranks):
        if rank == victim:
            t.start_rank(rank, options=options, **own)
        else:
            t.start_rank(rank)
    t.struck = time.monotonic()


def other_size(t: Trial) -> None:
    victim = t.any_rank()
    start_with_one_other(t, victim, [t.rng.choice(OTHER_SIZES)])
    t.ends(rf"rank {victim}\b|{TOO_LATE}")


def other_strategy(t: Trial) -> str:
    if t.setting.strategy == "hybrid_shard":
        return "--shard_size=1"
    return f"--strategy={t.rng.choice([s for s in STRATEGIES[:-1] if s != t.setting.strategy])}"


def other_options(t: Trial) -> None:
    victim = t.any_rank()
    start_with_one_other(t, victim, [t.rng.choice([*OTHER_OPTIONS, other_strategy(t)])])
    t.ends(rf"rank {victim}\b|{TOO_LATE}")


def wrong_options(t: Trial) -> None:
    """The rank says what is wrong, the others that it has failed for that."""
    victim = t.any_rank()
    option = t.rng.choice(WRONG_OPTIONS)
    start_with_one_other(t, victim, [option])
    name = option[2:].split("=")[0]
    t.wait(ALL_COME)
    for rank, process in enumerate(t.started):
        t.failed(process, rf"{name}|nowhere.txt" if rank == victim else
                 rf"rank {victim}\b|{TOO_LATE}")
    t.check_leftovers()


def other_text(t: Trial) -> None:
    victim = t.any_rank()
    text = t.folder / "given.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 200)
    start_with_one_other(t, victim, [f"--text={text}"])
    t.ends(rf"rank {victim}\b|{TOO_LATE}")


def other_world_size(t: Trial) -> None:
    victim = t.any_rank()
    start_with_one_other(t, victim, environment={
        "WORLD_SIZE": str(t.setting.ranks + 1), "LOCAL_WORLD_SIZE": str(t.setting.ranks + 1)})
    t.ends(rf"rank {victim}\b|--shard_size|{TOO_LATE}")  # which must divide it


def other_binary(t: Trial) -> None:
    victim = t.any_rank()
    binary = t.folder / "given.binary"
    binary.write_bytes(t.binary.read_bytes() + b"\n")
    binary.chmod(0o755)
    start_with_one_other(t, victim, binary=binary)
    t.ends(rf"rank {victim}\b.* another program|another program .*rank {victim}\b|{TOO_LATE}")


def rank_that_never_comes(t: Trial) -> None:
    victim = t.rng.randrange(1, t.setting.ranks)
    for rank in range(t.setting.ranks):
        if rank != victim:
            t.start_rank(rank)
    t.struck = time.monotonic()
    t.ends(rf"rank {victim}\b", within=ALL_COME)


# ---- a healthy run must not be disturbed

def completes_beside(t: Trial, strangers: dict) -> None:
    """The run ends well, with the same bits; the strangers (process -> what it says) do not."""
    t.wait(120)
    for process in t.started:
        if process in strangers:
            t.failed(process, strangers[process])
        else:
            t.succeeded(process)
    t.check_leftovers()
    same_as(t, t.healthy())


def stranger(t: Trial, rank: int, name: str, **environment):
    """A rank of no run of ours, whose files would not be ours either."""
    return t.start_rank(rank, SHORT, name=name, environment=environment,
                        options=["--out_dir=", "--metrics="])


def old_token(t: Trial) -> None:
    """One rank comes with the token of another run, and then with the right one."""
    victim = t.rng.randrange(1, t.setting.ranks)
    for rank in range(t.setting.ranks):
        if rank != victim:
            t.start_rank(rank, SHORT)
    late = stranger(t, victim, "late", NANOFSDP_TOKEN="yesterday's")
    t.wait(ENDS, aside=[p for p in t.started if p is not late])
    t.start_rank(victim, SHORT)
    completes_beside(t, {late: r"token"})


def left_over_rank(t: Trial) -> None:
    """A rank of a run that is over still looks for its rank 0, where now another run meets."""
    left = stranger(t, t.rng.randrange(1, t.setting.ranks), "left", NANOFSDP_TOKEN="yesterday's")
    time.sleep(t.rng.uniform(0, 0.3))
    t.start(SHORT)
    completes_beside(t, {left: r"token"})


def port_in_use(t: Trial) -> None:
    """Another run has the port: its ranks are not joined, and it goes on."""
    t.start(SHORT)
    t.wait_for_port()
    strangers = {stranger(t, rank, f"stranger{rank}", NANOFSDP_TOKEN="of another run"):
                 "MASTER_PORT" if rank == 0 else "token" for rank in range(t.setting.ranks)}
    completes_beside(t, strangers)


def rank_claimed_twice(t: Trial) -> None:
    victim = t.any_rank()
    t.start(SHORT)
    t.wait_for_port()
    t.wait_until_joined()
    twin = stranger(t, victim, "twin")
    completes_beside(t, {twin: "MASTER_PORT" if victim == 0 else rf"rank {victim} is taken"})


def by_hand(name: str, run, **how) -> Kind:
    return Kind(name, run, launcher=False, **how)


KINDS = [
    by_hand("other size", other_size, share=2),
    by_hand("other options", other_options, share=4),
    by_hand("wrong options", wrong_options, share=2),
    by_hand("other text", other_text),
    by_hand("other WORLD_SIZE", other_world_size),
    by_hand("other binary", other_binary, share=2),
    by_hand("rank that never comes", rank_that_never_comes),
    by_hand("old token", old_token, shapes=QUICK),
    by_hand("left-over rank", left_over_rank, shapes=QUICK),
    by_hand("port in use", port_in_use, shapes=QUICK),
    by_hand("rank claimed twice", rank_claimed_twice, shapes=QUICK),
]
