#!/usr/bin/env python3
"""mutate.py DIRECTORY: writes a copy of the product there with every bug of the catalogues in it.

Each bug sleeps behind a switch, mutant("its_name"), until the environment variable NANOFSDP_MUTANT
names it: one build serves all of them. Files that would not change are not written, so a rebuild
compiles only what a new mutant touches.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CATALOGUES = (HERE / "mutants.txt", *sorted({*HERE.glob("*.txt")} - {HERE / "mutants.txt"}))
COPIED = ["CMakeLists.txt", "README.md", "LICENSE", "src", "tests", "data", "lessons"]
# They read the sources as text, where every mutant would be seen for the wrong reason.
LEFT_OUT = {ROOT / "tests" / "house", ROOT / "tests" / "lessons"}


@dataclass(eq=False)
class Hunk:
    file: str
    old: str
    new: str


@dataclass
class Mutant:
    name: str
    description: str = ""
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def room(self) -> str:
        """The folder of src/ that it is in: 'fsdp' of 'src/fsdp/unit.cpp'."""
        return Path(self.hunks[0].file).parts[1]


class CatalogueError(Exception):
    pass


def read_catalogue(*paths: Path) -> list[Mutant]:
    mutants = [mutant for path in paths or CATALOGUES for mutant in read_file(path)]
    check(mutants)
    return mutants


def read_file(path: Path) -> list[Mutant]:
    mutants: list[Mutant] = []
    group: list[Mutant] = []  # the headings above the hunk that is being read
    file, last = "", ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("## "):
            group = [*group, Mutant(line[3:].strip())] if not file else [Mutant(line[3:].strip())]
            mutants.append(group[-1])
            file = ""
        elif line.startswith("# ") or not mutants:
            continue  # a comment
        elif line.startswith("file: "):
            file = line[6:].strip()
        elif file and line[:1] in ("-", "+"):
            if line[0] == "-" and last != "-":
                hunk = Hunk(file, "", "")
                for m in group:
                    m.hunks.append(hunk)
            if not group[0].hunks or hunk.file != file:
                raise CatalogueError(f"{path.name}:{number}: a + line without - lines above it")
            if line[0] == "-":
                hunk.old += line[1:] + "\n"
            else:
                hunk.new += line[1:] + "\n"
        elif line.strip() and not file:
            mutants[-1].description = f"{mutants[-1].description} {line.strip()}".strip()
        elif line.strip():
            raise CatalogueError(f"{path.name}:{number}: neither a - nor a + line: {line!r}")
        last = line[:1]
    return mutants


def check(mutants: list[Mutant]) -> None:
    names = [m.name for m in mutants]
    for m in mutants:
        if names.count(m.name) > 1 or not re.fullmatch(r"[a-z0-9_]+", m.name):
            raise CatalogueError(f"mutant '{m.name}': expected a name of its own of a-z, 0-9, _")
        if not m.description or not m.hunks:
            raise CatalogueError(f"mutant '{m.name}': expected a description and a change")
        if not any(f'mutant("{m.name}")' in hunk.new for hunk in m.hunks):
            raise CatalogueError(f"mutant '{m.name}': no line asks mutant(\"{m.name}\")")


def mutated(file: str, text: str, mutants: list[Mutant]) -> str:
    """The text with every change to this file; all are looked up in the text as it was."""
    changes = []
    seen = []
    for m in mutants:
        for hunk in (h for h in m.hunks if h.file == file and h not in seen):
            seen.append(hunk)
            count = ("\n" + text).count("\n" + hunk.old)
            if count != 1:
                raise CatalogueError(
                    f"mutant '{m.name}': {file}: expected its - lines once, found {count} times:\n"
                    f"{hunk.old}")
            begin = ("\n" + text).index("\n" + hunk.old)
            changes.append((begin, begin + len(hunk.old), hunk.new, m.name))
    changes.sort()
    result, end, before = "", 0, ""
    for begin, stop, new, name in changes:
        if begin < end:
            raise CatalogueError(f"mutants '{before}' and '{name}' change the same line of {file}")
        result += text[end:begin] + new
        end, before = stop, name
    return result + text[end:]


def write_copy(target: Path, mutants: list[Mutant]) -> None:
    files = set()
    for name in COPIED:
        path = ROOT / name
        below = path.rglob("*") if path.is_dir() else [path]
        files |= {f for f in below if f.is_file() and LEFT_OUT.isdisjoint(f.parents)}
    for m in mutants:
        for hunk in m.hunks:
            if ROOT / hunk.file not in files:
                raise CatalogueError(f"mutant '{m.name}': no file {hunk.file}")
    wanted = set()
    for file in sorted(files):
        name = file.relative_to(ROOT)
        content = file.read_bytes()
        if any(hunk.file == str(name) for m in mutants for hunk in m.hunks):
            content = mutated(str(name), content.decode(), mutants).encode()
        copy = target / name
        wanted.add(copy)
        if not copy.is_file() or copy.read_bytes() != content:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    for folder in (target / name for name in COPIED if (target / name).is_dir()):
        for file in [f for f in folder.rglob("*") if f.is_file() and f not in wanted]:
            file.unlink()  # what the product no longer has
    libraries = target / "build"  # unpacked libraries, where there are any, serve both builds
    if not libraries.is_symlink():
        (ROOT / "build").mkdir(exist_ok=True)
        libraries.symlink_to(ROOT / "build")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    try:
        write_copy(Path(sys.argv[1]), read_catalogue())
    except CatalogueError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
