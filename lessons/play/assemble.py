"""assemble.py ENGINE_DIRECTORY OUTPUT [--source=URL] [--lessons=URL with {}]: one HTML file with everything in it.

A page that is opened from a file may fetch nothing: its modules become one script, the engine travels as
base64, and the lines of source that events link to are quoted. Says how large both are, and fails
where they are too large.
"""

import argparse
import base64
import gzip
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parent.parent / "src"
MODULES = ["draw", "engine", "settings", "film", "words", "bars", "lanes", "curve", "list", "player", "answers",
           "train", "follow", "switches", "break", "crossing", "scale", "main"]  # each imports earlier ones only
MOST_OF_ENGINE = 400_000  # bytes, compressed
MOST_OF_PAGE = 150_000  # bytes, without the engine

# The names that words.js uses, and where the function begins.
EXCERPTS = {
    "unshard": ("fsdp/unit.cpp", "void Unit::unshard("),
    "gather": ("fsdp/unit.cpp", "void Unit::gather("),
    "reshard": ("fsdp/unit.cpp", "void Unit::reshard("),
    "reduce_gradients": ("fsdp/unit.cpp", "void Unit::reduce_gradients("),
    "wait": ("base/tracer.cpp", "void Tracer::wait("),
    "attach": ("fsdp/fully_shard.cpp", "void ShardedModel::attach("),
    "optimizer_step": ("fsdp/sharded_optimizer.cpp", "void ShardedOptimizer::step("),
}


def excerpt(path, beginning):
    lines = (SOURCE / path).read_text().splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(beginning)), None)
    if first is None:
        sys.exit(f"assemble.py: src/{path}: expected a line that begins with '{beginning}'\n"
                 "  hint: the function has moved; say so in EXCERPTS")
    indent = len(beginning) - len(beginning.lstrip())  # that of a class, of a function in it
    last = next(i for i, line in enumerate(lines[first:], first) if line == " " * indent + "}")
    text = "\n".join(line[indent:] for line in lines[first:last + 1])
    return {"path": path, "line": first + 1, "text": text}


def modules():
    """All of them in one script, each in a scope of its own."""
    text = '"use strict";\n'
    for name in MODULES:
        module = (HERE / "page" / f"{name}.js").read_text()
        module = re.sub(r"^import (\{[^}]*\}) from '\./(\w+)\.js';$", r"const \1 = \2_module;", module,
                        flags=re.MULTILINE)
        exports = ", ".join(re.findall(r"^export (?:const|class) (\w+)", module, re.MULTILINE))
        module = re.sub(r"^export ", "", module, flags=re.MULTILINE)
        text += f"const {name}_module = (() => {{\n{module}return {{ {exports} }};\n}})();\n"
    return text


def page(arguments):
    text = (HERE / "page" / "page.html").read_text()
    excerpts = {name: excerpt(*place) for name, place in EXCERPTS.items()}
    parts = {
        "SOURCE_ROOT": arguments.source,
        "LESSONS_ROOT": arguments.lessons,
        "DIFFS": (arguments.engine.parent / "source" / "switches.json").read_text(),
        "/*STYLE*/": (HERE / "page" / "style.css").read_text(),
        "EXCERPTS": json.dumps(excerpts).replace("</", "<\\/"),
        "/*MODULES*/": modules(),
    }
    for place, content in parts.items():
        assert text.count(place) == 1, place
        text = text.replace(place, content)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--source", default="../../src/")
    parser.add_argument("--lessons", default="../../lessons/{}/README.md")
    arguments = parser.parse_args()

    text = page(arguments)
    packed = {name: gzip.compress((arguments.engine / name).read_bytes(), mtime=0)
              for name in ("play.js", "play.wasm")}
    sizes = {"engine, compressed": (sum(map(len, packed.values())), MOST_OF_ENGINE),
             "page": (len(text.encode()), MOST_OF_PAGE)}
    for name, (size, most) in sizes.items():
        print(f"{name}: {size:,} bytes of {most:,}")
        if size > most:
            sys.exit(f"assemble.py: {name}: expected at most {most:,} bytes, got {size:,}")
    text = text.replace("ENGINE_JS", base64.b64encode(packed["play.js"]).decode())
    text = text.replace("ENGINE_WASM", base64.b64encode(packed["play.wasm"]).decode())
    arguments.output.write_text(text)


if __name__ == "__main__":
    main()
