"""Draws the newest result from a GPU: `picture.py` writes results/speed.svg."""

import json
import pathlib
from html import escape

RESULTS = pathlib.Path(__file__).parent / "results"
WIDTH, LEFT, ROW, SCALE = 720, 250, 44, 2.0  # pixels; SCALE is for one millisecond


def newest():
    """The result with the last date that has measured nanofsdp and PyTorch."""
    results = [json.loads(path.read_text()) for path in RESULTS.glob("*.json")]
    return max((r for r in results if {"ours", "compile"} <= r["speed"].keys()), key=lambda r: r["date"])


def svg(result):
    """A bar for each trainer: how long a step takes, and how much memory it needs."""
    bars = [f'<text x="8" y="22" class="title">One step of GPT-2 124M in bfloat16, 64 rows of 1,024 tokens, on one '
            f'{escape(result["gpu"])}</text>']
    for i, who in enumerate(result["speed"].values()):
        y, width = 40 + ROW * i, SCALE * who["ms"]
        colour = "#2a6fdb" if who["words"] == "nanofsdp" else "#b8651b"
        bars.append(f'<text x="8" y="{y + 20}">{escape(who["words"])}</text>')
        bars.append(f'<rect x="{LEFT}" y="{y}" width="{width:.0f}" height="30" fill="{colour}"/>')
        bars.append(f'<text x="{LEFT + width + 8:.0f}" y="{y + 20}">{who["ms"]:.1f} ms, {who["peak_bytes"] / 1e9:.1f} GB</text>')
    height = 40 + ROW * len(result["speed"])
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px">\n'
            '<style>text{font:13px sans-serif;fill:#333}.title{font-weight:bold}</style>\n'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n' + "\n".join(bars) + "\n</svg>\n")


if __name__ == "__main__":
    (RESULTS / "speed.svg").write_text(svg(newest()))
