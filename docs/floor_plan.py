"""Draws docs/floor-plan.svg, the picture with which docs/design.md begins, from the imports of
`src/foltr`.

    python docs/floor_plan.py           # draws it
    python docs/floor_plan.py --list    # prints the first sentence of every module

A box is an entry at the top of the package, with the first sentence of its docstring and its rooms
(the packages in it). It stands one row above the highest box that it imports from. An arrow leads
to each box that it imports from, unless a longer way leads there too. Imports that only
a type checker reads do not count, nor does `Experiment.run`, which reaches upwards.

A test (tests/unit/test_house.py) fails if the picture is not what this would draw."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "foltr"
PICTURE = ROOT / "docs" / "floor-plan.svg"
PRODUCTS = {"simulation", "deployment", "device"}
UPWARDS = {("experiment", "simulation")}  # Experiment.run

BOX_WIDTH, BOX_GAP, ROW_GAP = 290, 26, 34
LINE_HEIGHT, TITLE_HEIGHT, PADDING = 15, 22, 10
WRAP_CHARACTERS = 44


def imported(node: ast.AST) -> Iterator[str]:
    """The names of modules that the code below a node imports."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module == "foltr":
            yield from (f"foltr.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        else:
            yield from imported(child)


@cache
def packages() -> dict[str, set[str]]:
    """Each entry at the top of foltr, and the entries that it imports from."""
    names = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()} | {
        path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")
    }
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        folder = SOURCE / name
        files = folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]
        for file in files:
            for module in imported(ast.parse(file.read_text(encoding="utf-8"))):
                parts = module.split(".")
                if parts[0] == "foltr" and len(parts) > 1 and parts[1] in names - {name}:
                    if (name, parts[1]) not in UPWARDS:
                        found[name].add(parts[1])
    return found


@cache
def row(name: str) -> int:
    """0 for a package that imports from no other."""
    return max((1 + row(other) for other in packages()[name]), default=0)


@cache
def reached(name: str) -> frozenset[str]:
    others = packages()[name]
    return frozenset(others).union(*(reached(other) for other in others))


def arrows(name: str) -> list[str]:
    others = packages()[name]
    return sorted(o for o in others if not any(o in reached(p) for p in others - {o}))


def first_sentence(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\.)\s", " ".join(docstring.split()))[0]


def text_of(name: str) -> list[str]:
    """The lines in a box below its name."""
    folder = SOURCE / name
    sentence = first_sentence(
        folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    )
    lines = textwrap.wrap(sentence, WRAP_CHARACTERS)
    rooms = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    if rooms:
        lines += ["", *textwrap.wrap("Rooms: " + ", ".join(rooms), WRAP_CHARACTERS)]
    return lines


def picture() -> str:
    rows: dict[int, list[str]] = {}
    for name in sorted(packages()):
        rows.setdefault(row(name), []).append(name)
    widest = max(map(len, rows.values()))
    width = widest * BOX_WIDTH + (widest + 1) * BOX_GAP
    boxes: dict[str, tuple[float, float, float]] = {}  # x, y, height
    y: float = ROW_GAP
    for number in sorted(rows, reverse=True):
        names = rows[number]
        heights = {
            name: TITLE_HEIGHT + LINE_HEIGHT * len(text_of(name)) + 2 * PADDING for name in names
        }
        left = (width - len(names) * (BOX_WIDTH + BOX_GAP) + BOX_GAP) / 2
        for i, name in enumerate(names):
            boxes[name] = (left + i * (BOX_WIDTH + BOX_GAP), y, heights[name])
        y += max(heights.values()) + ROW_GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {y:.0f}"'
        ' font-family="sans-serif" font-size="12.5">',
        "<title>The packages of foltr, and who imports from whom</title>",
        "<style>rect{fill:#f6f7f9;stroke:#8a93a0}.product{fill:#dcebff;stroke:#2563c9;"
        "stroke-width:2}text{fill:#1d2733}.name{font-weight:bold;font-size:15px}"
        "path{fill:none;stroke:#8a93a0;stroke-width:1.3;marker-end:url(#tip)}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#8a93a0;'
        'stroke:none"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{y:.0f}" style="fill:#fff;stroke:none"/>',
    ]
    for name in sorted(boxes):
        x, top, height = boxes[name]
        for other in arrows(name):
            to_x, to_top, _ = boxes[other]
            x2, y2 = to_x + BOX_WIDTH / 2, to_top
            if row(name) - row(other) > 1:  # around the boxes between them
                x1, y1 = x + BOX_WIDTH, top + height / 2
                bend_x, bend_y = max(x1, x2) + BOX_WIDTH / 3, y1
            else:
                x1, y1 = x + BOX_WIDTH / 2, top + height
                bend_x, bend_y = x1, (y1 + y2) / 2
            parts.append(
                f'<path d="M{x1:.0f} {y1:.0f}C{bend_x:.0f} {bend_y:.0f}'
                f' {x2:.0f} {(y1 + y2) / 2:.0f} {x2:.0f} {y2:.0f}"/>'
            )
    for name, (x, top, height) in sorted(boxes.items()):
        kind = ' class="product"' if name in PRODUCTS else ""
        parts.append(
            f'<rect{kind} x="{x:.0f}" y="{top:.0f}" width="{BOX_WIDTH}" height="{height}" rx="6"/>'
        )
        line = top + PADDING + TITLE_HEIGHT - 8
        parts.append(f'<text class="name" x="{x + PADDING:.0f}" y="{line:.0f}">{name}</text>')
        for text in text_of(name):
            line += LINE_HEIGHT
            parts.append(f'<text x="{x + PADDING:.0f}" y="{line:.0f}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    if "--list" in sys.argv[1:]:
        for file in sorted(SOURCE.rglob("*.py")):
            print(f"{file.relative_to(SOURCE)}: {first_sentence(file)}")
    else:
        PICTURE.write_text(picture(), encoding="utf-8")
