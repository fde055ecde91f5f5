"""digits.py TEST_LESSONS SOURCE [--seed=N]: changes one digit of a page at a time; a test has to fail.

The digits are drawn at random, each from another kind of place: prose, output, quoted code, a formula,
a picture, and pages beside the lessons. The pages are changed in a copy.
"""

import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

UNREAD = r"```[\s\S]*?```|<!--[\s\S]*?-->|\]\([^)]*\)"  # by a person: code, comments, targets of links

# The file, what of it is looked at, and which spans of that are left out.
PLACES = [
    ("lessons/01_first_loss/README.md", r"[\s\S]+", UNREAD),
    ("lessons/11_zero_3_units/README.md", r"[\s\S]+", UNREAD),
    ("lessons/22_your_own_model/README.md", r"[\s\S]+", UNREAD),
    ("lessons/04_collectives/README.md", r"<!-- output: \S+ -->\n(```[\s\S]*?```)", None),
    ("lessons/08_shard_and_pad/README.md", r"<!-- output: \S+ -->\n(```[\s\S]*?```)", None),
    ("lessons/02_one_operator/README.md", r"<!-- from: \S+ -->\n(```[\s\S]*?```)", None),
    ("lessons/15_mixed_precision/README.md", r"<!-- from: \S+ -->\n(```[\s\S]*?```)", None),
    ("lessons/18_hybrid_shard/README.md", r"```math[\s\S]*?```", None),
    ("lessons/07_flat_parameter/README.md", r"```python[\s\S]*?```", None),
    ("lessons/13_overlap/README.md", r"<!-- numbers: ([\s\S]*?) -->", None),
    ("lessons/20_cuda_nccl/cuda_nccl.svg", r">[^<>]+</text>", None),
    ("lessons/14_two_slots/two_slots.svg", r">[^<>]+</text>", None),
    ("README.md", r"[\s\S]+", UNREAD),
    ("README.md", r"```text[\s\S]*?```", None),
    ("lessons/README.md", r"[\s\S]+", UNREAD),
    ("lessons/speed.md", r"\|[^\n]*\|\n", None),
    ("lessons/mine/README.md", r"[\s\S]+", UNREAD),
]


def digits_of(text, pattern, left_out):
    """The positions of all digits that may be changed."""
    hidden = [m.span() for m in re.finditer(left_out, text)] if left_out else []
    for m in re.finditer(pattern, text):
        begin, end = m.span(m.re.groups)
        for at in range(begin, end):
            if text[at].isdigit() and text[at].isascii() and not any(b <= at < e for b, e in hidden):
                yield at


def passes(test, copy, page, pattern):
    """Whether the tests of a page find nothing wrong with the copy. Programs run only for what they print
    and draw."""
    number = re.match(r"lessons/(\d\d)_", page)
    still = "" if page.endswith(".svg") or "output" in pattern else ":*Prints*"
    tests = f"Lessons/Lesson.*/{number[1]}-*Long*{still}" if number else "Pages.*"
    run = subprocess.run([test, f"--gtest_filter={tests}"], capture_output=True, text=True,
                         env=dict(os.environ, NANOFSDP_PAGES=str(copy)))
    return run.returncode == 0 and "[  PASSED  ]" in run.stdout and "PASSED  ] 0" not in run.stdout


def main():
    test, source = sys.argv[1], pathlib.Path(sys.argv[2])
    seed = int(sys.argv[3].removeprefix("--seed=")) if len(sys.argv) > 3 else random.randrange(10**6)
    print(f"--seed={seed}")
    draw, missed = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for part in ("lessons", "src", "tests/lessons"):
            shutil.copytree(source / part, copy / part)
        shutil.copy(source / "README.md", copy)
        for page, pattern, _ in PLACES:
            if not passes(test, copy, page, pattern):
                sys.exit(f"{page}: its tests fail before a digit is changed")
        for page, pattern, left_out in PLACES:
            text = (copy / page).read_text()
            at = draw.choice(list(digits_of(text, pattern, left_out)))
            other = draw.choice([digit for digit in "0123456789" if digit != text[at]])
            (copy / page).write_text(text[:at] + other + text[at + 1:])
            seen = not passes(test, copy, page, pattern)
            missed += not seen
            where = " ".join(text[max(0, at - 20):at + 20].split())
            print(f"{'seen' if seen else 'MISSED'}: {page}: {text[at]} becomes {other} in '{where}'")
            (copy / page).write_text(text)
    print(f"{len(PLACES) - missed} of {len(PLACES)} changed digits were seen")
    sys.exit(missed > 0)


main()
