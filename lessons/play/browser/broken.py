"""broken.py DIRECTORY: a copy of src/ there with the bugs that the page can switch on, and switches.json.

The bugs are mutants of tests/mutants. All of them sleep until the page names one (mutant.h), and a
test shows that the engine is the native one as long as they do.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))
import mutate  # noqa: E402

SWITCHES = [
    "prefetch_is_left_out", "blocks_stay_after_forward", "memory_is_not_released",
    "gathered_is_not_waited_for", "reduction_is_not_waited_for", "gradients_are_not_zeroed",
    "gradients_are_not_reduced", "only_rank_0_counts", "same_micro_batches_on_all_ranks",
    "micro_steps_overwrite", "clip_by_local_norm", "no_clip", "discarded_copy_counts_as_fresh",
]


def write_if_changed(path, content):
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def diff_of(mutant):
    """Its own lines: those by which it shares them with other mutants are left out."""
    hunk = mutant.hunks[0]
    lines = [line for line in hunk.new.splitlines()
             if not (line.strip().startswith("if (mutant(") and mutant.name not in line)]
    return {"description": mutant.description, "file": hunk.file, "old": hunk.old,
            "new": "\n".join(lines)}


def main():
    target = pathlib.Path(sys.argv[1])
    known = {mutant.name: mutant for mutant in mutate.read_catalogue()}
    mutants = [known[name] for name in SWITCHES]
    broken = {hunk.file for mutant in mutants for hunk in mutant.hunks}
    wanted = set()
    for file in sorted((ROOT / "src").rglob("*")):
        if file.suffix not in (".h", ".cpp"):
            continue
        name = str(file.relative_to(ROOT))
        content = file.read_bytes()
        if name in broken:
            content = mutate.mutated(name, content.decode(), mutants).encode()
        write_if_changed(target / name, content)
        wanted.add(target / name)
    for file in [f for f in (target / "src").rglob("*") if f.is_file() and f not in wanted]:
        file.unlink()
    switches = {mutant.name: diff_of(mutant) for mutant in mutants}
    write_if_changed(target / "switches.json", json.dumps(switches).replace("</", "<\\/").encode())


if __name__ == "__main__":
    main()
