"""The blocks of a page of the documentation, run from top to bottom in the working folder.

A block with a title is a file, `sh` and `python` blocks are run (Python in one interpreter per
page), and the `text` block after one is what it prints, but for measures and times. A block that
cannot be run has a comment above it, `<!-- not run: why -->`."""

import contextlib
import io
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>.+?)"
    r" -->\n)?^```(?P<language>\w*)(?P<more>[^\n]*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
# between runs and machines: identities, times, sparklines, and the width of a table's columns
VARIES = re.compile(r"[0-9a-f]{16}|\d+(:\d\d)+|\d*\.\d+ s\b|[▁-█]+|[┏━┳┓┃┡╇┩│├─┼┤└┴┘]+")
NUMBER = re.compile(r"\d*\.\d+")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    title: str | None
    code: str
    why_not: str | None

    def __str__(self):
        return f"docs/{self.page}, line {self.line}"


def blocks(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', found["more"])
        line = text.count("\n", 0, found.start("language")) + 1
        yield Block(
            page, line, found["language"], title[1] if title else None, found["code"], found["why"]
        )


def alike(line, other):
    """Whether two lines say the same, but for what differs from run to run. Measures may differ in
    the last bits, as another processor adds them up in another order: by a hundredth of
    themselves."""
    line, other = VARIES.sub(" ", line), VARIES.sub(" ", other)
    numbers, others = (list(map(float, NUMBER.findall(each))) for each in (line, other))
    said = NUMBER.sub(" ", line).split() == NUMBER.sub(" ", other).split()
    return said and others == pytest.approx(numbers, rel=0.01, abs=0.002)


def check_printed(block, printed):
    """Every line of a `text` block was printed, in that order; `...` stands for lines left out."""
    lines, place = printed.splitlines(), 0
    for line in block.code.splitlines():
        if line.strip() in ("", "..."):
            continue
        found = [i for i, other in enumerate(lines) if i >= place and alike(line, other)]
        assert found, f"{block}: was not printed: {line!r}\n--- printed:\n{printed}"
        place = found[0] + 1


def run_page(page):
    """Run a page's blocks here, in the working folder."""
    namespace, printed = {"__name__": "__main__"}, None
    for block in blocks(page):
        if block.why_not:
            printed = None
        elif block.title:
            file = Path(block.title)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                exec(compile("\n" * block.line + block.code, f"docs/{page}", "exec"), namespace)
            printed = told.getvalue()
        elif block.language == "sh":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block.code],
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            assert done.returncode == 0, (
                f"{block}: exit code {done.returncode}\n{block.code}\n{done.stdout}"
            )
            printed = done.stdout
        elif block.language == "text" and printed is not None:
            check_printed(block, printed)


if __name__ == "__main__":
    run_page(sys.argv[1])
