"""Text as LaTeX shows it: labels of runs may hold anything."""

from __future__ import annotations

from unicodedata import lookup

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
    "[": "{[}",  # after \\ it would open that command's argument, as a star would be one
    "]": "{]}",
    "*": "{*}",
    "-": "{-}",  # two would be a dash
    "\u2013": "--",
    "\u2014": "---",
    "…": r"\dots{}",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
}
MATHS = {"±": "pm", "≤": "leq", "≥": "geq", "≠": "neq", "≈": "approx", "∞": "infty", "→": "to", "·": "cdot"}
SMALL = "alpha beta gamma delta epsilon zeta eta theta iota kappa mu nu xi pi rho sigma tau upsilon phi chi psi omega"
CAPITAL = "Gamma Delta Theta Xi Pi Sigma Upsilon Phi Psi Omega"
for letter in (*SMALL.split(), *CAPITAL.split()):
    MATHS[lookup(f"GREEK {'SMALL' if letter.islower() else 'CAPITAL'} LETTER {letter.upper()}")] = letter
MATHS |= {"\u00d7": "times", "µ": "mu", "λ": "lambda", "Λ": "Lambda"}


def escaped(text: str) -> str:
    """Any text, to be read as it stands: no character of it is a command."""
    return "".join(_character(c) for c in " ".join(text.split()))


def _character(c: str) -> str:
    if c in MATHS:
        return rf"$\{MATHS[c]}$"
    return SPECIAL.get(c, c if c.isprintable() else "?")
