"""grade_test.py BUILD: our solutions get all points, wrong ones none, and who cheats or breaks
something harms only itself. BUILD is a configured build folder; works below BUILD/grade_test."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as xml

from dishonest import DAEMON, INCLUDES, dishonest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve()
OUT = BUILD / "grade_test"
SOLUTIONS = {f.parent.name[:2]: f for f in sorted(ROOT.glob("lessons/[0-9]*_*/*_solution.cpp"))}


def grade_folder(folder, *arguments, out="grade", **how):
    return subprocess.run([sys.executable, ROOT / "lessons/grade/grade.py", BUILD, OUT / out, f"--from={folder}",
                           *arguments], stdout=subprocess.DEVNULL, **how)


def hand_in(files):
    """Files of these texts, by lesson, as a student hands them in."""
    folder = OUT / "handed_in"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, text in files.items():
        name = SOLUTIONS[number].name.replace("_solution.cpp", "_exercise.cpp")
        (folder / name).write_text(text)
    return folder


def grade(files, seed=7):
    """The results by lesson, of what is graded of these files."""
    grade_folder(hand_in(files), f"--seed={seed}", "--only=" + ",".join(files), check=True)
    results = json.loads((OUT / "grade/results.json").read_text())
    suite = xml.parse(OUT / "grade/junit.xml").getroot()
    assert int(suite.get("tests")) == len(files)
    assert int(suite.get("failures")) == sum(t["score"] == 0 for t in results["tests"])
    assert results["score"] == sum(t["score"] for t in results["tests"])
    return {t["name"][:2]: t for t in results["tests"]}


def leaderboard():
    """Who exposes less is listed before, and who only prints a number is not listed."""
    text = SOLUTIONS["13"].read_text()
    discard = "    program.push_back({Line::discard, u});\n  }\n  for (int u = units - 1;"
    gather = "if (u == units - 1 || !prefetch)"
    expect(text.count(discard) == 1 and text.count(gather) == 1, "lesson 13's solution has changed")
    kept = text.replace(discard, "    if (u + 1 < units)" + discard[3:]).replace(
        gather, "if (u < units - 1 && !prefetch)")
    prints = INCLUDES + text.replace("program;\n", 'program;\n  puts("13 overlap: exposed ms: 1"); exit(0);\n', 1)
    turns = text.replace("program;\n", "program;\n  static int calls = 0;\n  if (++calls > 25) return {};\n", 1)
    cheat = hand_in({"13": f'#include "{SOLUTIONS["13"]}"\n'})  # graded elsewhere, this harms nobody here
    grade_folder(cheat, "--only=13", out="elsewhere", check=True)
    class_ = OUT / "class"
    shutil.rmtree(class_, ignore_errors=True)
    for name, file in {"better": kept, "prints": prints, "same": text, "turns": turns}.items():
        (class_ / name).mkdir(parents=True)
        (class_ / name / "overlap_exercise.cpp").write_text(file)
    (class_ / "without").mkdir()
    said = subprocess.run([sys.executable, ROOT / "lessons/grade/leaderboard.py", BUILD, OUT / "grade", class_],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line.split() for line in said.splitlines()[1:]]
    # The library exposes a collective of 5 ms more in each of the 24 steps: it discards the last unit.
    library = int(lines[1][-1])
    expect(lines == [["1", "better", str(library - 24 * 5)], ["2", "(the", "library)", str(library)],
                     ["2", "same", str(library)], ["-", "prints", "does", "not", "pass", "yet"],
                     ["-", "turns", "does", "not", "pass", "yet"],
                     ["-", "without", "does", "not", "pass", "yet"]], said)


def shard_group(name):
    """The answer to the first question of a sheet."""
    sys.path.insert(0, str(ROOT / "lessons/grade"))
    import sheet as sheets
    return sheets.answers(sheets.numbers(name))[1]


def sheet():
    """A sheet counts where it is asked for, and a missing one has no points."""
    practice = "A calculation in two dimensions, for: practice\n1 = 4\n3 = 2_759_680\n"
    alices, bobs = (f"A calculation in two dimensions, for: {name}\n1 = {shard_group(name)}\n"
                    for name in ("alice", "bob"))
    for sheets, score, said in (([], 0, "no sheet"), ([alices], 1, "alice"), ([practice], 0, "no sheet"),
                                ([alices, practice], 1, "the sheet of alice"),
                                ([alices, bobs], 1, "2 sheets; graded is two_dimensions_1.txt")):
        folder = hand_in({"07": SOLUTIONS["07"].read_text()})
        for i, text in enumerate(sheets):
            (folder / f"two_dimensions_{i}.txt").write_text(text)
        grade_folder(folder, "--only=7", "--sheet", check=True)
        results = json.loads((OUT / "grade/results.json").read_text())
        last = results["tests"][-1]
        right = results["score"] == 10 + score and last["max_score"] == 10
        expect(right and said in last["output"], f"the sheet: {last}")


def odd_folders():
    """Only regular files count. Of two files of one name the result says which one was graded."""
    folder = hand_in({})
    (folder / "flat_parameter_exercise.cpp").symlink_to(SOLUTIONS["07"])
    (folder / "deferred_init_exercise.cpp").symlink_to("nowhere.cpp")
    (folder / "your_own_model_exercise.cpp").mkdir()
    (folder / "two_dimensions_alice.txt").symlink_to("nowhere.txt")
    for name, text in (("a", "int broken"), ("b", SOLUTIONS["24"].read_text())):
        (folder / name).mkdir()
        (folder / name / "when_it_pays_exercise.cpp").write_text(text)
    grade_folder(folder, "--only=07,12,22,24", "--sheet", check=True)
    results = {t["name"][:2]: t for t in json.loads((OUT / "grade/results.json").read_text())["tests"]}
    for number in ("07", "12", "22"):
        expect("no file of this name" in results[number]["output"], f"the odd {number}: {results[number]}")
    expect(results["24"]["score"] == 10 and
           "2 files of this name; graded is b/when_it_pays_exercise.cpp" in results["24"]["output"], results["24"])
    (folder / "empty").mkdir()
    for place, only, said in ((folder / "nowhere", "07", "FROM is to name a folder"), (folder, "99", "there are 00 01"),
                              (folder / "empty", "07", "has no file *_exercise.cpp")):
        refused = grade_folder(place, f"--only={only}", stderr=subprocess.PIPE, text=True)
        expect(refused.returncode == 1 and said in refused.stderr, refused.stderr)
    expect(not (OUT / "grade/results.json").exists(), "the results of another run are left")


def handout():
    """It has the stubs and no solution, nor an editor's copy of one; with a solved stub there is none."""
    tree = OUT / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    lesson = tree / "lessons/08_shard_and_pad"
    lesson.mkdir(parents=True)
    stub = "// TODO(lesson 08): 9 lines.\n"
    for name, text in (("exercise", stub), ("solution", "9 lines")):
        (lesson / f"shard_and_pad_{name}.cpp").write_text(text)
    (tree / "Makefile").write_text("")
    git = ["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.excludesFile="]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "--message=a", "--no-gpg-sign"]):
        subprocess.run([*git, *command], check=True)
    (lesson / "shard_and_pad_solution.cpp~").write_text("9 lines")
    (lesson / "shard_and_pad_solution.cpp.orig").write_text("9 lines")

    def pack():
        return subprocess.run(["sh", ROOT / "lessons/grade/handout.sh", OUT / "handout.tar.gz"], cwd=tree,
                              capture_output=True, text=True)
    packed = pack()
    expect(packed.returncode == 0, packed.stderr)
    with tarfile.open(OUT / "handout.tar.gz") as tar:
        names = [f"nanofsdp/{name}" for name in ("Makefile", "lessons/08_shard_and_pad/shard_and_pad_exercise.cpp")]
        expect(sorted(tar.getnames()) == names, f"the handout: {tar.getnames()}")
    (lesson / "shard_and_pad_exercise.cpp").write_text(stub + "9 lines")
    expect(pack().returncode == 1 and "is not as git has it" in pack().stderr, "a solved stub is handed out")
    shutil.rmtree(tree / ".git")
    expect(pack().returncode == 1, "a handout without git")


def broken_files():
    """Files that break something or cheat get no points, and take none from others."""
    whole = {number: SOLUTIONS[number].read_text() for number in ("07", "12", "22")}
    (OUT / DAEMON).unlink(missing_ok=True)
    files, words = dishonest(SOLUTIONS, OUT)
    results = grade(whole | files)
    for number, said in words.items():
        expect(results[number]["score"] == 0, f"the broken {number} has points: {results[number]['output']}")
        expect(said in results[number]["output"],
               f"the broken {number}: no '{said}' in: {results[number]['output']}")
    for number in whole:
        expect(results[number]["score"] > 0, f"{number} lost its points to others")
    daemon = (OUT / DAEMON).read_text()
    expect(not pathlib.Path("/proc", daemon).exists(), "a process of a student outlives its exercise")


def without_tests():
    """In a handout the targets of the tests say that there are none, and a build with tests configures."""
    tree = OUT / "handed_out"
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("src", "lessons", "data", "tests/parity/golden"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*_solution.*", "__pycache__"))
    for file in ("CMakeLists.txt", "Makefile"):
        shutil.copy(ROOT / file, tree / file)
    for target in ("test", "lessons", "tales"):
        said = subprocess.run(["make", target], cwd=tree, capture_output=True, text=True)
        expect(said.returncode == 2 and f"make {target} needs the tests, and a handout has none" in said.stderr,
               f"make {target} in a handout: {said.stderr}")
    configured = subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-DNANOFSDP_TESTS=ON"],
                                capture_output=True, text=True)
    expect(configured.returncode == 0, f"a handout after `make test`: {configured.stderr}")


def own_symbols():
    """A checker takes no name from students, but for functions that the exercise's header gives them."""
    for objects in sorted((OUT / "grade").glob("objects_*")):
        checker = objects.read_text().split("\n")[0]
        said = subprocess.run(["nm", "-g", "-C", "--defined-only", checker], check=True, stdout=subprocess.PIPE,
                              text=True)
        strong = re.findall(r"^\w+ [TDBR] (?!check_|exposed_in_all_)(.*)$", said.stdout, re.M)
        header = str(SOLUTIONS[objects.name[-2:]]).replace("_solution.cpp", "_exercise.h")
        given = pathlib.Path(header).read_text()
        strong = [name for name in strong if f" {name.split('(')[0]}(" not in given]
        expect(not strong, f"{objects.name}: students cannot use the names {strong}")


def expect(holds, what):
    if not holds:
        sys.exit(f"grade_test: {what}")


def wrong_solutions():
    """Rounds of files: each round has one wrong solution a lesson."""
    edits = {}
    for line in (ROOT / "tests/grade/wrong.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        number, edit = line.split(" ", 1)
        if number not in SOLUTIONS:
            continue  # a lesson that is not in this tree
        old, new = re.split(r" -> | ->$", edit, maxsplit=1)
        text = SOLUTIONS[number].read_text()
        expect(text.count(old) >= 1, f"wrong.txt: lesson {number} has no '{old}'")
        edits.setdefault(number, []).append(text.replace(old, new, 1))
    for number in SOLUTIONS:
        expect(len(edits.get(number, [])) >= 2, f"wrong.txt: fewer than two of lesson {number}")
    for i in range(max(map(len, edits.values()))):
        yield {number: texts[i] for number, texts in edits.items() if i < len(texts)}


def main():
    leaderboard()
    sheet()
    odd_folders()
    handout()
    without_tests()
    solutions = {number: file.read_text() for number, file in SOLUTIONS.items()}
    for checker in ROOT.glob("lessons/[0-9]*_*/*_check.cpp"):
        text = checker.read_text()
        expect("lesson::seed(" in text or not re.search("mt19937|Generator", text),
               f"{checker.name} draws its cases without lesson::seed")
    for number, result in grade(solutions).items():
        expect(result["score"] == result["max_score"] > 0 and "right in all" in result["output"],
               f"our {number} fails: {result['output']}")
    own_symbols()
    for seed in (1, 123456789):  # hidden cases are right, too, whichever they are
        drawn = {n: solutions[n] for n in ("01", "02", "03", "11", "12", "13", "15", "22")}
        # The rule of lesson 14's second exercise is for who wants more: a wrong one costs nothing.
        drawn["14"] = solutions["14"].replace("has_gradient ? 0 : 1", "has_gradient ? 0 : 2")
        for number, result in grade(drawn, seed).items():
            expect(result["score"] > 0, f"{number} fails with seed {seed}: {result['output']}")

    broken_files()
    for files in wrong_solutions():
        for number, result in grade(files).items():
            expect(result["score"] == 0, f"a wrong {number} has points")
            expect("does not compile" not in result["output"], f"a wrong {number} does not compile: "
                   + result["output"])

    print("grade_test: all as it is to be")


if __name__ == "__main__":
    main()
