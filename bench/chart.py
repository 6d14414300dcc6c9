#!/usr/bin/env python3
"""Draws docs/benchmarks.svg, Bulkhead and other loaders, from bench/results/peers.csv.

    bench/chart.py            writes the chart
    bench/chart.py --check    exits with 1 if the chart in docs/ is not the one that would be written
"""

import argparse
import csv
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "peers.csv"
CHART = ROOT / "docs" / "benchmarks.svg"

# Pixels.
WIDTH = 760
LEFT = 190  # names of the loaders end here
RIGHT = 60  # room for the number behind the longest bar
TOP = 92
BAR = 13
ROW = 44

ONE_CORE = "#1f5fa8"
TWO_CORES = "#9dc3ec"
OTHER_ONE_CORE = "#6b6b6b"
OTHER_TWO_CORES = "#c4c4c4"
REFERENCE = "#c0392b"


def rows():
    """What was measured, and a line that says when, where and of what."""
    lines = RESULTS.read_text().splitlines()
    about = [line for line in lines if line.startswith("#")][-1].lstrip("# ")
    return list(csv.DictReader(line for line in lines if not line.startswith("#"))), about


def text(x, y, words, **attributes):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(words)}</text>'


def bar(y, length, color):
    return f'<rect x="{LEFT}" y="{y:g}" width="{length:.1f}" height="{BAR}" fill="{color}"/>'


def chart(results, about):
    loaders = [row for row in results if row["pipeline"] == "A"]
    (decode,) = [row for row in results if row["pipeline"] == "decode"]
    longest = max(float(row["two_cores"]) for row in loaders)
    scale = (WIDTH - LEFT - RIGHT) / longest
    bottom = TOP + ROW * len(loaders)
    height = bottom + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13" fill="#222">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        text(16, 26, "Images per second: random_resized_crop 224, flip, uint8", font_size=16),
        text(16, 46, "One core (dark), two cores (light), Python clients", fill="#555"),
        text(16, 64, about, fill="#555"),
    ]
    x = LEFT + float(decode["one_core"]) * scale
    lines.append(
        f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom - 2}"'
        f' stroke="{REFERENCE}" stroke-dasharray="4 3"/>'
    )
    for index, row in enumerate(loaders):
        top = TOP + ROW * index
        ours = row["loader"].startswith("Bulkhead")
        colors = (ONE_CORE, TWO_CORES) if ours else (OTHER_ONE_CORE, OTHER_TWO_CORES)
        lines.append(text(LEFT - 10, top + BAR + 5, row["loader"], text_anchor="end"))
        for place, (cores, color) in enumerate(zip(("one_core", "two_cores"), colors)):
            rate = float(row[cores])
            y = top + place * (BAR + 2)
            lines.append(bar(y, rate * scale, color))
            lines.append(
                text(LEFT + rate * scale + 6, y + BAR - 2, f"{rate:,.0f}",
                     stroke="#fff", stroke_width=4, paint_order="stroke")
            )
    words = f'{decode["loader"]} alone, full decode of the same files on one core: {float(decode["one_core"]):,.0f}'
    lines.append(text(x - 4, bottom + 14, words, fill=REFERENCE))
    return "\n".join(lines + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare with the chart in docs/")
    drawn = chart(*rows())
    if not parser.parse_args().check:
        CHART.write_text(drawn)
        return
    if not CHART.exists() or CHART.read_text() != drawn:
        sys.exit(f"{CHART.relative_to(ROOT)} is not what {RESULTS.relative_to(ROOT)} gives: run bench/chart.py")


if __name__ == "__main__":
    main()
