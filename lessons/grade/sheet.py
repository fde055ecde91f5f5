"""The calculation of lessons/two_dimensions.md, with numbers of its own for each student.

    sheet.py --for NAME FOLDER  writes FOLDER/two_dimensions_NAME.txt, with a place for each answer
    sheet.py --check FILE       says which answers are right, if the formulas are in this tree
"""

import pathlib
import random
import re
import sys

try:
    from two_dimensions_solution import answers
except ImportError:  # a handout
    answers = None

FILES = "two_dimensions_*.txt"
POINTS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 2, 6: 1, 7: 1}
TOLERANCE = 0.005
TEXT = """\
A calculation in two dimensions, for: {name}
Write each answer behind its "=", as a number. An answer may be 0.5 % off. lessons/two_dimensions.md
explains the words.

{ranks} GPUs are {replicas} replicas. Each replica is a grid of shard groups and tensor groups; a tensor group has
{tensor} GPUs. The model has {blocks} blocks, {width} wide, with 12 * width * width parameters each, and nothing
else. A tensor group has {tokens} tokens in a micro-batch. What is sent inside a replica has 2 bytes an
element. A GPU computes {tflops} TFLOP/s, and {gb_per_s} GB/s of a shard group's collectives pass it.

1. How many GPUs does a shard group have?
1 =
2. How many bytes of float32 parameters, float32 gradients and Adam's two moments does a GPU keep?
2 =
3. How many bytes does a GPU send for tensor parallelism, for each token of its group, forward and
   backward?
3 =
4. How many bytes does a GPU send for full_shard in a micro-batch, for each token of its tensor group?
4 =
5. From how many tokens of a tensor group on does full_shard send no more bytes than tensor parallelism?
5 =
6. How many bytes does a GPU send once a step to all-reduce its float32 gradients with the other replicas?
6 =
7. How many tokens for each GPU hide the gather of a block behind the forward of a block?
7 =
"""


def numbers(name):
    """The numbers of a sheet. They are functions of the student's name."""
    draw = random.Random(f"nanofsdp, two dimensions: {name}")
    n = {"replicas": draw.choice((2, 4, 8)), "tensor": draw.choice((2, 4, 8)), "blocks": draw.randint(24, 96),
         "width": 512 * draw.randint(6, 24), "tokens": 1024 * draw.randint(2, 32),
         "tflops": draw.randint(300, 700), "gb_per_s": draw.randint(40, 400)}
    return n | {"ranks": n["replicas"] * n["tensor"] * draw.choice((4, 8, 16, 32))}


def name_of(text):
    found = re.match(r".* for: (.+)", text)
    return found[1].strip() if found else None


def given(text):
    """What stands behind "1 =" and so on, by question; of two answers to a question the last one."""
    found = re.findall(r"^[ \t]*(\d)[ \t]*=(.*)$", text, re.M)
    return {int(question): answer.strip() for question, answer in found if answer.strip()}


def number_of(answer):
    """The number that is written so, with or without marks for thousands, or None."""
    plain = re.sub(r"[,_'\s]", "", answer)
    return float(plain) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", plain, re.ASCII) else None


def grade(text):
    """(points, what to say). A sheet without a name has no numbers, so it has no points."""
    name = name_of(text)
    if name is None:
        return 0, "no sheet: its first line names the student"
    right, yours = answers(numbers(name)), given(text)
    points, said = 0, [f"the sheet of {name}"]
    for question, worth in POINTS.items():
        number = number_of(yours.get(question, ""))
        is_right = number is not None and abs(number - right[question]) <= TOLERANCE * right[question]
        points += worth * is_right
        if question not in yours:
            said.append(f"{question}: no answer")
        elif number is None:
            said.append(f"{question}: not read as a number: {yours[question]}")
        else:
            said.append(f"{question}: {'right' if is_right else 'not yet'}")
    return points, "\n".join(said)


def check(file):
    if answers is None:
        sys.exit("make sheet: a handout does not have the formulas; your teacher has them")
    points, said = grade(file.read_text(errors="replace"))
    print(f"{said}\n{points} of {sum(POINTS.values())} points")


def write(name, folder):
    if not name or "/" in name or not name.isprintable() or len(name) > 100:
        sys.exit(f"make sheet: FOR is to name the student, as in FOR=alice, got {name!r}")
    out = folder / FILES.replace("*", name)
    if out.exists():
        sys.exit(f"make sheet: {out} is there already, perhaps with answers")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(TEXT.format(name=name, **numbers(name)))
    print(f"{out.read_text()}\nWrite your answers into {out}.")


def main():
    try:
        if sys.argv[1] == "--check":
            check(pathlib.Path(sys.argv[2]))
        else:
            write(sys.argv[2].strip(), pathlib.Path(sys.argv[3]))  # as name_of() does
    except OSError as error:
        sys.exit(f"make sheet: {error.strerror}: {error.filename}")


if __name__ == "__main__":
    main()
