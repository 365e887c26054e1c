"""Matrices as booktabs tables for LaTeX.

Labels of runs may hold any character, and are shown as they are."""

from __future__ import annotations

import math
import re
from unicodedata import lookup

from foltr.report.captions import caption, heading, mark_legend, refusal_reasons, refusals
from foltr.report.matrix import BETTER, BETTER_HERE, WORSE, WORSE_HERE, Matrix

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"''",
    "[": "{[}",  # after \\ a bracket or a star would be an argument of that command
    "]": "{]}",
    "*": "{*}",
    "\u2013": r"\textendash{}",
    "\u2014": r"\textemdash{}",
    "…": r"\dots{}",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    "△": r"$\vartriangle$",
    "▽": r"$\triangledown$",
}
SUPERSCRIPT = {
    BETTER: r"$^{\blacktriangle}$",
    WORSE: r"$^{\blacktriangledown}$",
    BETTER_HERE: r"$^{\vartriangle}$",
    WORSE_HERE: r"$^{\triangledown}$",
    "": "",
}
NOT_TESTED = r"$^{\circ}$"
MATHS = {
    "±": "pm",
    "≤": "leq",
    "≥": "geq",
    "≠": "neq",
    "≈": "approx",
    "∞": "infty",
    "→": "to",
    "·": "cdot",
}
SMALL = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa mu nu xi pi rho sigma tau upsilon"
    " phi chi psi omega"
)
CAPITAL = "Gamma Delta Theta Xi Pi Sigma Upsilon Phi Psi Omega"
for letter in (*SMALL.split(), *CAPITAL.split()):
    size = "SMALL" if letter.islower() else "CAPITAL"
    MATHS[lookup(f"GREEK {size} LETTER {letter.upper()}")] = letter
MATHS |= {"\u00d7": "times", "µ": "mu", "λ": "lambda", "Λ": "Lambda"}


def escaped(text: str) -> str:
    """A text in LaTeX: no character of it is a command, and no two of them make a ligature."""
    return re.sub("-(?=-)", "-{}", "".join(_character(c) for c in " ".join(text.split())))


def _character(c: str) -> str:
    if c in MATHS:
        return rf"$\{MATHS[c]}$"
    return SPECIAL.get(c, c if c.isprintable() else "?")


def latex_tables(*matrices: Matrix) -> str:
    """A booktabs table per matrix, with caption and label."""
    runs = sorted({len(matrix.study.runs) for matrix in matrices})
    made = rf"% Made by `foltr report` from {', '.join(map(str, runs))} runs."
    needs = r"% Needs \usepackage{booktabs} and \usepackage{amssymb}."
    return "\n".join([made, needs, *(_table(matrix) for matrix in matrices)])


def _table(matrix: Matrix) -> str:
    study = matrix.study
    heads = [
        rf"\multicolumn{{2}}{{c}}{{{escaped(condition.label)}}}" for condition in study.conditions
    ]
    rows = [_row(matrix, i) for i in range(len(study.methods))]
    lines = [
        *(f"% not tested: {' '.join(reason.split())}" for reason in refusals(matrix)),
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_caption(matrix)}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', matrix.measure)}}}",
        r"\small\setlength{\tabcolsep}{4pt}",
        rf"\begin{{tabular}}{{l{' r@{ }l' * len(heads)}}}",
        r"\toprule",
        rf" & {' & '.join(heads)} \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _caption(matrix: Matrix) -> str:
    entries = matrix.entries.values()
    signs = ["Best mean in bold"] if any(entry.best for entry in entries) else []
    signs += mark_legend(matrix, SUPERSCRIPT)
    if why := refusal_reasons(entries):
        signs.append(f"{NOT_TESTED} not tested, as {why}")
    text = [f"{escaped(heading(matrix))}.", escaped(caption(matrix))]
    return " ".join([*text, *([f"{'; '.join(signs)}."] if signs else [])])


def _row(matrix: Matrix, i: int) -> str:
    study = matrix.study
    base = r"\textsuperscript{b}" if matrix.family and i == study.baseline else ""
    cells = [_cell(matrix, i, j) for j in range(len(study.conditions))]
    return rf"{escaped(study.methods[i].label)}{base} & {' & '.join(cells)} \\"


def _cell(matrix: Matrix, i: int, j: int) -> str:
    """Two columns, so that means are aligned: the mean; then its sd, an unusual number of runs,
    and its mark."""
    entry, digits = matrix.entries.get((i, j)), matrix.decimals
    if entry is None:
        return r"\multicolumn{2}{c}{--}"
    mean = f"{entry.mean:.{digits}f}".replace("-", "$-$")
    bold = rf"\textbf{{{mean}}}" if entry.best else mean
    parts = [
        "" if math.isnan(entry.sd) else rf"$\pm${entry.sd:.{digits}f}",
        matrix.unusual_n(entry),
    ]
    more = " ".join(part for part in parts if part)
    small = rf"{{\scriptsize{'' if more.startswith('$') else ' '}{more}}}" if more else ""
    return f"{bold} & {small}{NOT_TESTED if entry.refused else SUPERSCRIPT[entry.mark]}"
