"""sheet_test.py: the formulas of the sheet in two dimensions give what a count gives, rank by rank, and
the grader of sheets gives points for right answers only."""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lessons/grade"))
sys.dont_write_bytecode = True
import sheet  # noqa: E402


def expect(holds, what):
    if not holds:
        sys.exit(f"sheet_test: {what}")


def sent(group, elements, element_bytes):
    """Bytes that a rank sends in an all-gather or a reduce-scatter: a chunk to each other rank."""
    chunk = elements / len(group)
    return sum(chunk * element_bytes for other in group if other != group[0])


def counted(n):
    """The answers, counted for rank 0 of the grid."""
    ranks = range(n["ranks"])
    per_replica = n["ranks"] // n["replicas"]
    tensor = [r for r in ranks if r // n["tensor"] == 0]
    shard = [r for r in ranks if r // per_replica == 0 and r % n["tensor"] == 0]
    replicas = [r for r in ranks if r % per_replica == 0]
    expect(len(tensor) == n["tensor"] and len(replicas) == n["replicas"], "the grid")
    matrices = [4 * n["width"] ** 2, 4 * n["width"] ** 2, 4 * n["width"] ** 2]  # attention, two of the MLP
    own = sum(matrix / len(tensor) for _ in range(n["blocks"]) for matrix in matrices)

    def of_tensor(tokens):
        total = 0
        for _ in range(n["blocks"]):
            for _ in ("attention", "MLP", "MLP backward", "attention backward"):
                total += 2 * sent(tensor, tokens * n["width"], 2)  # reduce-scatter, then all-gather
        return total

    of_fsdp = 0
    for _ in range(n["blocks"]):
        for _ in ("all-gather", "all-gather", "reduce-scatter"):
            of_fsdp += sent(shard, own / n["blocks"], 2)
    tokens, of_a_token = 1, of_tensor(1)
    while of_a_token * tokens < of_fsdp * (1 - 1e-12):
        tokens += 1
    block = own / n["blocks"]
    gather = sent(shard, block, 2) / (n["gb_per_s"] * 1e9)
    each = 1  # tokens of a GPU
    while 2 * block * each * len(tensor) / (n["tflops"] * 1e12) < gather * (1 - 1e-12):
        each += 1
    bytes_kept = sum(4 * own / len(shard) for _ in ("parameter", "gradient", "moment", "moment"))
    return {1: len(shard), 2: bytes_kept, 3: of_tensor(n["tokens"]) / n["tokens"],
            4: of_fsdp / n["tokens"], 5: tokens, 6: 2 * sent(replicas, own / len(shard), 4), 7: each}


def filled(name, right):
    text = sheet.TEXT.format(name=name, **sheet.numbers(name))
    for question, answer in right.items():
        text = text.replace(f"\n{question} =\n", f"\n{question} = {answer if isinstance(answer, str) else f'{answer:,}'}\n")
    return text


def main():
    everything = sum(sheet.POINTS.values())
    for name in [*map(str, range(60)), "practice", "Zoë O'Neill"]:
        numbers = sheet.numbers(name)
        expect(numbers == sheet.numbers(name), f"the numbers of {name} are drawn twice")
        right = sheet.answers(numbers)
        for question, answer in counted(numbers).items():
            expect(abs(right[question] - answer) <= 1e-9 * answer,
                   f"question {question} of {name}: formula {right[question]}, counted {answer}")
        expect(sheet.grade(filled(name, right))[0] == everything, f"right answers of {name}")
        expect(sheet.grade(filled(name, {}))[0] == 0, f"an empty sheet of {name}")
        for form in ("{:.6E}", "+{:.1f}", "{:.6e} ", "\t{:_.2f}\t", "{:_.0f}\u202f"):
            written = {question: form.format(answer).replace("_", " ") for question, answer in right.items()}
            expect(sheet.grade(filled(name, written))[0] == everything, f"answers of {name} in the form {form}")
        for question, worth in sheet.POINTS.items():
            wrong = right | {question: 1.01 * right[question]}
            expect(sheet.grade(filled(name, wrong))[0] == everything - worth, f"a wrong {question} of {name}")
    mine, other = filled("alice", sheet.answers(sheet.numbers("alice"))), filled("bob", {})
    answers_alone = re.findall(r"^\d = .*$", mine, re.M)
    copied = re.sub(r"^(\d) =$", lambda m: answers_alone[int(m[1]) - 1], other, flags=re.M)
    expect(sheet.grade(copied)[0] < everything / 2, "bob has points for alice's answers")
    for answer in ("4 GPUs", "1665269760 bytes", "6.66 * 10^9", "four", "4.4.4", "\u0664"):
        points, said = sheet.grade(filled("alice", {1: answer}))
        expect(points == 0 and f"\n1: not read as a number: {answer}\n2: no answer\n" in said,
               f"the answer {answer}: {said}")
    for broken in ("", "no sheet\n1 = 4\n", mine.replace("for: alice", "for:")):
        expect(sheet.grade(broken)[0] < everything / 2, "a sheet without a name has points")
    with tempfile.TemporaryDirectory() as folder:
        def make_sheet(*words):
            return subprocess.run([sys.executable, "-B", ROOT / "lessons/grade/sheet.py", *words],
                                  capture_output=True, text=True)
        for given in ("alice", "alice "):  # the same numbers, and the sheet is there already
            said = make_sheet("--for", given, folder)
            expect((said.returncode == 0) == (given == "alice"), f"a sheet for '{given}': {said}")
        expect(make_sheet("--for", "--check", folder).returncode == 0, "a student of the name --check")
        for words in (("--for", "", folder), ("--for", "a/b", folder), ("--for", "a" * 300, folder),
                      ("--for", "a\nb", folder), ("--check", folder + "/nowhere.txt"), ("--check", folder)):
            said = make_sheet(*words)
            expect(said.returncode == 1 and re.fullmatch("make sheet: .*\n", said.stderr), f"{words}: {said.stderr}")
    page = (ROOT / "lessons/two_dimensions.md").read_text()
    practice = sheet.answers(sheet.numbers("practice")).values()
    expect("| answer | " + " | ".join(f"{answer:,.0f}" for answer in practice) + " |" in page, "the page's answers")
    expect("| points | " + " | ".join(map(str, sheet.POINTS.values())) + " |" in page, "the page's points")
    print("sheet_test: all as it is to be")


if __name__ == "__main__":
    main()
