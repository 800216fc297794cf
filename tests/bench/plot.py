"""A plot of the rows that are measured beside haproxy: a line for each, with the ratio of each program to
haproxy. No colour of it is lost on a dark or a light background, since who shows it chooses that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape

Row = dict[str, Any]

# What is shown: works of one size and form stand for those of others.
WORKS = ("ping", "find, reply of 1 KB", "reply of 1 MB",
         "insert of 1, 512 B, number", "insert of 1, 512 B, _id", "insert of 1, 512 B, _id and number",
         "insert of 100, 512 B, number", "insert of 100, 512 B, number, array", "insert of 100, 512 B, _id",
         "insert of 100, 512 B, _id and number", "insert of 1000, 512 B, number",
         "insert of 100, 512 B, nothing to do", "insert of 100, 512 B, dotted path",
         "insert of 100, 512 B, replaced _id", "TLS, insert of 1, 512 B, number",
         "TLS, insert of 100, 512 B, number", "TLS, reply of 1 MB")

INK, FAINT, OURS = "#7a828c", "#7a828c55", "#2f81f7"
OTHERS = {"nginx": "#2da44e", "envoy": "#bf5fd6", "relay": "#7a828c"}

WIDTH, LEFT, RIGHT, TOP, STEP, BOTTOM = 860, 290, 24, 44, 24, 34
MOST = 2.0  # ratios beyond it are drawn at the border


def x_of(ratio: float) -> float:
    return LEFT + min(ratio, MOST) / MOST * (WIDTH - LEFT - RIGHT)


def text(x: float, y: float, content: str, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def dot(x: float, y: float, radius: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>'


def row_of(row: Row, y: float) -> Iterator[str]:
    yield text(LEFT - 12, y + 4, row["work"], "end")
    if "must" in row:
        yield line(x_of(row["must"]), y - 8, x_of(row["must"]), y + 8, INK, 2)
    haproxy = row["columns"]["haproxy"]
    for name, colour in OTHERS.items():
        if name in row["columns"]:
            yield dot(x_of(row["columns"][name] / haproxy), y, 3.5, colour)
    figure = row["figure"]
    yield line(x_of(figure["low"]), y, x_of(figure["high"]), y, OURS, 3)
    yield dot(x_of(figure["median"]), y, 5.5, OURS)


def legend(rows: list[Row]) -> Iterator[str]:
    names = {name for row in rows for name in row["columns"]}
    shown = [("mongo-idproxy, median and range", OURS)]
    shown += [(name, colour) for name, colour in OTHERS.items() if name in names]
    x = 12.0
    for name, colour in shown:
        yield dot(x, 16, 4.5, colour)
        yield text(x + 9, 20, name)
        x += 30 + 7 * len(name)
    yield line(x, 9, x, 23, INK, 2)
    yield text(x + 9, 20, "must be left of this")


def scale(bottom: float) -> Iterator[str]:
    for tenths in range(0, int(MOST * 10) + 1, 5):
        x = x_of(tenths / 10)
        yield line(x, TOP - 10, x, bottom, INK if tenths == 10 else FAINT, 1)
        name = "haproxy = 1" if tenths == 10 else f"{tenths / 10:g}{'+' if tenths / 10 == MOST else ''}"
        yield text(x, bottom + 18, name, "middle")


def plot(rows: list[Row]) -> str:
    by_name = {row["work"]: row for row in rows if "figure" in row and row["beside"] == "haproxy"}
    shown = [by_name[work] for work in WORKS if work in by_name]
    bottom = TOP + STEP * len(shown)
    parts = [*legend(shown), *scale(bottom)]
    for i, row in enumerate(shown):
        parts += row_of(row, TOP + STEP * i + STEP / 2 - 4)
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + BOTTOM}" '
            f'font-family="system-ui, sans-serif" font-size="13">\n'
            f"<title>CPU per operation beside haproxy</title>\n{body}\n</svg>\n")
