"""The plot of `make parity`: the loss of all runs, and how far each is from the first one."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP = 860, 210, 70, 20, 34, 46
WARM, COLD = ("#d55e00", "#e69f00", "#cc79a7", "#8b4513", "#f0c000"), ("#0072b2", "#56b4e9", "#009e73", "#003f5c")


class Panel:
    """One diagram: steps to the right, values upwards, on a logarithmic scale if asked."""

    def __init__(self, title, top, steps, low, high, log):
        self.title, self.top, self.steps, self.low, self.high, self.log = title, top, steps, low, high, log

    def x(self, step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, value):
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(v) for v in (max(value, low), low, high))
        return self.top + HEIGHT * (1 - (value - low) / (high - low))

    def line(self, points, style):
        path = " ".join(f"{self.x(s):.1f},{self.y(v):.1f}" for s, v in points)
        return f'<polyline points="{path}" fill="none" {style}/>'

    def frame(self):
        yield f'<text x="{LEFT}" y="{self.top - 10}" class="title">{escape(self.title)}</text>'
        if self.log:
            ticks = [10.0**e for e in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        else:
            ticks = range(math.ceil(self.low), math.floor(self.high) + 1)
        for tick in ticks:
            y = self.y(tick)
            yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            name = f"1e{round(math.log10(tick))}" if self.log else f"{tick}"
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
        for step in range(0, self.steps + 1, max(1, self.steps // 5)):
            yield (f'<text x="{self.x(step):.1f}" y="{self.top + HEIGHT + 16}" text-anchor="middle">{step}</text>')


def so_far(run, reference, key):
    """The largest relative difference up to each step, as the corners of a staircase."""
    largest, points = 0.0, []
    for step, (a, b) in enumerate(zip(run, reference), start=1):
        now = max(largest, abs(a[key] / b[key] - 1))
        if now > largest or step in (1, len(run)):
            points += [(step, largest), (step, now)]
        largest = now
    return points


def staircase(tolerances, column, steps):
    start, points = 1, []
    for tolerance in tolerances:
        if start < steps:
            points += [(start, tolerance[column]), (min(tolerance[0], steps), tolerance[column])]
        start = tolerance[0]
    return points


def styles(runs):
    """A line style for each run: PyTorch in warm colours, nanofsdp in cold ones; dashed from the second round on."""
    warm, cold, out = 0, 0, []
    for label, _ in runs:
        ours = label.startswith("nanofsdp")
        number, colours = (cold, COLD) if ours else (warm, WARM)
        warm, cold = warm + (not ours), cold + ours
        dash = ' stroke-dasharray="5 3"' * (number >= len(colours))
        out.append(f'stroke="{colours[number % len(colours)]}" stroke-width="1.5"{dash}')
    return out


def svg(runs, tolerances):
    """The plot of `runs`, (label, records) each; the first is what the others are compared with."""
    steps, reference = len(runs[0][1]), runs[0][1]
    losses = [r["loss"] for r in reference]
    tops = [TOP + i * (HEIGHT + GAP + 18) for i in range(3)]
    curves = Panel("loss: all runs, one over the other", tops[0], steps, min(losses) - 0.1, max(losses) + 0.1, False)
    loss = Panel("loss: largest relative difference so far; dashed: tolerance", tops[1], steps, 1e-9, 1e-5, True)
    norm = Panel("gradient norm before clipping: the same", tops[2], steps, 1e-9, 1e-4, True)
    body = [part for panel in (curves, loss, norm) for part in panel.frame()]
    lines = styles(runs)
    for i, (_, records) in enumerate(runs):
        body.append(curves.line([(r["iter"] + 1, r["loss"]) for r in records], lines[i]))
        if i > 0:
            body.append(loss.line(so_far(records, reference, "loss"), lines[i]))
            body.append(norm.line(so_far(records, reference, "grad_norm"), lines[i]))
    for panel, column in ((loss, 1), (norm, 2)):
        body.append(panel.line(staircase(tolerances, column, steps), 'class="tolerance"'))
    legend = tops[-1] + HEIGHT + 40
    for i, (label, _) in enumerate(runs):
        x, y = LEFT + (i % 2) * (WIDTH - LEFT) / 2, legend + 18 * (i // 2)
        body.append(f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" {lines[i]}/>')
        body.append(f'<text x="{x + 30}" y="{y}">{escape(label)}</text>')
    height = legend + 18 * ((len(runs) + 1) // 2)
    style = ("text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#ddd}"
             ".tolerance{stroke:#c00;stroke-dasharray:6 4}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px">\n<style>{style}</style>\n'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n")
