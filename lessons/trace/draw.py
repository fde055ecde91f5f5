"""Reads real traces of one training step, prints what they say, and draws them.

    draw.py IN OUT    reads IN/torch_0.json and IN/nanofsdp.json, which record.py has written; OUT gets
                      step.json, torch.svg and nanofsdp.svg
    draw.py --check   the pictures and the table of this folder are those of its step.json

step.json has the spans of one step of rank 0, in microseconds. A span is [lane, kind, unit, begin, end].
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
COMPUTE, GATHER, REDUCE = range(3)  # the lanes
# The colours of the book (lessons/frame/svg.h).
COLOURS = {"compute": "#cccccc", "wait": "url(#waiting)", "copy": "#56b4e9", "optimizer": "#009e73",
           "gather": "#9a6fd0", "reduce": "#d55e00", "control": "#ffffff"}
ALL, LEFT, WIDE, LANE, LETTER = 360, 76, 270, 24, 8  # pixels, for a phone


# Reading ------------------------------------------------------------------------------------------

def complete_events(path):
    events = json.loads(path.read_text())["traceEvents"]
    return sorted((e for e in events if e.get("ph") == "X"), key=lambda e: e["ts"])


def unit_of(name):
    """The unit that PyTorch's record_function names, as in "FSDP::all_gather (h.0)"."""
    unit = re.search(r"\((?:.*\.)?h\.(\d+)\)| for (?:.*\.)?h\.(\d+)$", name)
    return (unit[1] or unit[2]) if unit else "r"


def torch_collectives(events, within):
    """(call on the main thread, the work on Gloo's thread) of each collective, in order."""
    main = within["tid"]
    inside = [e for e in events if within["ts"] <= e["ts"] < within["ts"] + within["dur"]]
    pairs = []
    for calls, work in ((("c10d::_allgather_base_",), "gloo:all_gather"),
                        (("c10d::_reduce_scatter_base_", "c10d::allreduce_"), "gloo:all_reduce")):
        called = [e for e in inside if e["tid"] == main and e["name"] in calls]
        worked = [e for e in events if e["name"] == work and e["ts"] > within["ts"]]
        pairs += zip(called, worked)
    return sorted(pairs, key=lambda pair: pair[1]["ts"])


def enclosing(events, call, words):
    """The annotation of the main thread around a call, whose name begins with one of these words."""
    around = [e for e in events if e["tid"] == call["tid"] and e["name"].startswith(words)
              and e["ts"] <= call["ts"] <= e["ts"] + e["dur"]]
    return around[-1] if around else None


def read_torch(folder):
    events = complete_events(folder / "torch_0.json")
    step = next(e for e in events if e["name"] == "step 1")
    start, spans = step["ts"], []

    def add(lane, kind, unit, event, begin=None):
        spans.append([lane, kind, unit, round((begin or event["ts"]) - start),
                      round(event["ts"] + event["dur"] - start)])

    for call, work in torch_collectives(events, step):
        around = enclosing(events, call, ("FSDP::all_gather", "FSDP::post_backward_reduce"))
        unit = unit_of(around["name"]) if around else "norm"
        kind = "control" if around is None else "reduce" if "reduce" in around["name"] else "gather"
        add(GATHER if kind == "gather" else REDUCE, kind, unit, work)
        if around is not None:  # the call returns when the collective is done
            add(COMPUTE, "wait", unit, around, call["ts"])
    inside = [e for e in events if start <= e["ts"] < start + step["dur"] and e["tid"] == step["tid"]]
    ready = {}  # when the last hook before a unit's computation ended
    for event in inside:
        if re.match(r"FSDP::pre_\w+ \(", event["name"]):
            ready[unit_of(event["name"])] = event["ts"] + event["dur"]
        if re.match(r"FSDP::post_(forward|backward_reshard) \(", event["name"]):
            add(COMPUTE, "compute", unit_of(event["name"]), {"ts": event["ts"], "dur": 0},
                ready[unit_of(event["name"])])
        if event["name"].startswith("FSDP::all_gather_copy_out"):
            add(COMPUTE, "copy", unit_of(event["name"]), event)
        elif event["name"].startswith("Optimizer.step"):
            add(COMPUTE, "optimizer", "", event)
        elif event["name"] == "_c10d_functional::wait_tensor" and event["dur"] > 100:
            add(COMPUTE, "wait", "norm", event)
    backward = next(e for e in inside if e["name"].startswith("FSDP::pre_backward"))
    operators = sum(e.get("cat") == "cpu_op" for e in inside)
    return {"spans": sorted(spans, key=lambda s: s[3]), "end": round(step["dur"]),
            "backward": round(backward["ts"] - start), "operators": operators}


def read_nanofsdp(folder):
    events = complete_events(folder / "nanofsdp.json")
    ends = [e["ts"] + e["dur"] for e in events if e["pid"] == 0 and e["name"] == "optimizer"]
    start, end = ends[0], ends[1]
    kinds = {0: "compute", 1: "gather", 2: "reduce", 3: "wait"}
    spans, backward = [], None
    for event in events:
        if not start <= event["ts"] < end or event["pid"] > 0:
            continue
        name, kind = event["name"], kinds[event["tid"]]
        if name == "backward root":
            backward = event["ts"] - start
        if name == "optimizer":
            kind = "optimizer"
        if event["tid"] == 0 and name.endswith("root") or event["dur"] < 1:
            continue  # it lasts from the first block to the last one
        unit = name.rsplit(".", 1)[1] if "h." in name else "" if kind == "optimizer" else "r"
        lane = {"gather": GATHER, "reduce": REDUCE}.get(kind, COMPUTE)
        begin = event["ts"] - start
        spans.append([lane, kind, unit, round(begin), round(begin + event["dur"])])
    return {"spans": sorted(spans, key=lambda s: s[3]), "end": round(end - start),
            "backward": round(backward)}


# The table ----------------------------------------------------------------------------------------

def ms(microseconds):
    return f"{microseconds / 1000:.1f}"


def total(spans, kind):
    return sum(end - begin for _, of, unit, begin, end in spans if of == kind and unit != "norm")


def count(spans, kind):
    return str(sum(of == kind for _, of, *_ in spans))


def table(steps):
    rows = [["one step of rank 0", "PyTorch", "nanofsdp"]]
    both = (steps["torch"], steps["nanofsdp"])

    def row(name, cell):
        rows.append([name, *(cell(step) for step in both)])

    row("all-gathers", lambda s: count(s["spans"], "gather"))
    row("reduce-scatters", lambda s: count(s["spans"], "reduce"))
    row("the step, ms", lambda s: ms(s["end"]))
    row("all-gathers run for, ms", lambda s: ms(total(s["spans"], "gather")))
    row("reductions run for, ms", lambda s: ms(total(s["spans"], "reduce")))
    row("computation waits for them, ms", lambda s: ms(total(s["spans"], "wait")))
    row("copies out of gathers, ms", lambda s: ms(total(s["spans"], "copy")) if "operators" in s else "-")
    row("operators that the main thread called", lambda s: str(s.get("operators", "-")))
    return "".join(f"{name:<40}{torch:>10}{ours:>10}\n" for name, torch, ours in rows)


# Drawing ------------------------------------------------------------------------------------------

class Picture:
    def __init__(self):
        self.body, self.y = [], 0

    def rect(self, x, y, width, height, fill, stroke="#ffffff"):
        self.body.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" '
                         f'stroke="{stroke}"/>')

    def line(self, x1, y1, x2, y2, stroke="#333333"):
        self.body.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{stroke}"/>')

    def text(self, x, y, words, anchor="start"):
        self.body.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>')

    def words(self, *lines):
        for line in lines:
            self.y += 18
            self.text(8, self.y, line)

    def panel(self, title, step, begin, end, marks):
        """One part of a step, with an axis of its own. Marks are (time, number)."""
        self.y += 10
        self.words(title)
        top = self.y + 26
        x = lambda time: LEFT + round((time - begin) * WIDE / (end - begin))
        tick = next(t for k in range(3, 9) for t in (10**k, 2 * 10**k, 5 * 10**k) if (end - begin) / t <= 8)
        ticks = range(-(-begin // tick) * tick, end + 1, tick)
        for time in ticks:
            self.line(x(time), top, x(time), top + 3 * LANE, "#cccccc")
        for i, lane in enumerate(("compute", "all-gather", "reduce")):
            self.text(LEFT - 6, top + LANE * i + 17, lane, "end")
        self.draw(COLOURS["compute"], LEFT, WIDE, top, "")  # the main thread, where nothing else is said
        for lane, kind, unit, start, stop in step["spans"]:
            if start < end and stop > begin:
                left, right = x(max(start, begin)), x(min(stop, end))
                self.draw(COLOURS[kind], left, max(1, right - left), top + LANE * lane, unit)
        for time, number in marks:
            if begin <= time < end:
                self.text(x(time), top - 8, number, "middle")
                self.line(x(time), top - 5, x(time), top)
        bottom = top + 3 * LANE + 4
        self.line(LEFT, bottom, LEFT + WIDE, bottom)
        for time in ticks:
            self.line(x(time), bottom, x(time), bottom + 5)
            self.text(x(time), bottom + 19, str(time // 1000), "middle")
        self.text(LEFT - 14, bottom + 19, "ms", "end")
        self.y = bottom + 22

    def draw(self, fill, left, width, top, words):
        self.rect(left, top + 1, width, LANE - 2, fill,
                  "#333333" if fill == COLOURS["control"] else "#ffffff")
        if words and width >= LETTER * len(words) + 2:
            if fill == COLOURS["wait"]:
                self.rect(left + width // 2 - 5, top + 5, 10, 14, "#ffffff")
            self.text(left + width // 2, top + 17, words, "middle")

    def svg(self):
        height = self.y + 8
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {ALL} {height}" '
                f'style="max-width:{ALL}px">\n'
                '<style>text { font: 13px sans-serif; fill: #333333 }</style>\n'
                f'<rect width="{ALL}" height="{height}" fill="#ffffff"/>\n'
                '<defs><pattern id="waiting" width="6" height="6" patternUnits="userSpaceOnUse">'
                '<path d="M0,6 L6,0" stroke="#777777"/></pattern></defs>\n'
                + "\n".join(self.body) + "\n</svg>\n")


LEGEND = ("Digit on a bar: the block; r: the root.", "Grey: computation. Hatched: it waits.")


def middle(step, lane, kind, unit=None, after=0):
    """The middle of the first such span."""
    return next((s[3] + s[4]) // 2 for s in step["spans"] if s[0] == lane and s[1] == kind
                and s[3] >= after and (unit is None or s[2] == unit))


def draw_torch(step):
    picture, backward = Picture(), step["backward"]
    picture.words("PyTorch's FSDP2: a step of rank 0 of 2, on a CPU", *LEGEND,
                  "Violet: all-gather. Blue: copies out of it.",
                  "Red: reduction. Green: optimizer. White: norm.")
    longest = max((s for s in step["spans"] if s[1] == "wait" and s[4] < backward),
                  key=lambda s: s[4] - s[3])
    marks = [(middle(step, GATHER, "gather", "0"), "1"), ((longest[3] + longest[4]) // 2, "2"),
             (middle(step, GATHER, "gather", "1", backward), "3"),
             (middle(step, REDUCE, "reduce", "0"), "4"), (middle(step, REDUCE, "control"), "5"),
             (middle(step, COMPUTE, "optimizer"), "6")]
    picture.panel("Forward", step, 0, backward, marks)
    half = (backward + step["end"]) // 2
    picture.panel("Backward begins", step, backward, half, marks)
    picture.panel("Backward ends, clipping, optimizer", step, half, step["end"], marks)
    return picture.svg()


def draw_nanofsdp(step):
    picture, backward = Picture(), step["backward"]
    picture.words("nanofsdp: a step of rank 0 of 2, on a CPU", *LEGEND,
                  "Violet: all-gather. Red: reduction.", "Green: optimizer.")
    marks = [(middle(step, COMPUTE, "wait", "0"), "1"), (middle(step, GATHER, "gather", "2"), "2"),
             (middle(step, GATHER, "gather", "0", backward), "3"),
             (middle(step, REDUCE, "reduce", "1"), "4"), (middle(step, COMPUTE, "optimizer"), "6")]
    picture.panel("Forward", step, 0, backward, marks)
    picture.panel("Backward and the optimizer", step, backward, step["end"], marks)
    return picture.svg()


def write(steps, out):
    (out / "torch.svg").write_text(draw_torch(steps["torch"]))
    (out / "nanofsdp.svg").write_text(draw_nanofsdp(steps["nanofsdp"]))


def check():
    steps = json.loads((HERE / "step.json").read_text())
    wanted = {"torch.svg": draw_torch(steps["torch"]), "nanofsdp.svg": draw_nanofsdp(steps["nanofsdp"])}
    wrong = [name for name, text in wanted.items() if (HERE / name).read_text() != text]
    if f"```text\n{table(steps)}```" not in (HERE / "README.md").read_text():
        wrong.append("the table of README.md")
    if wrong:
        sys.exit(f"draw.py: not as step.json says: {', '.join(wrong)}")
    print("draw.py: pictures and table are those of step.json")


def main():
    if sys.argv[1:] == ["--check"]:
        return check()
    folder, out = map(pathlib.Path, sys.argv[1:])
    steps = {"torch": read_torch(folder), "nanofsdp": read_nanofsdp(folder)}
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(steps)
    (out / "step.json").write_text(re.sub(r"(\[\[|\], \[)", lambda m: m[0].replace("[[", "[\n[").replace(
        "], [", "],\n["), text) + "\n")
    write(steps, out)
    print(table(steps), end="")
    print(f"Drawn: {out / 'torch.svg'}, {out / 'nanofsdp.svg'}")


if __name__ == "__main__":
    main()
