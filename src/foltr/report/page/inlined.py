"""Scripts and style sheets inside a page, and the content policy that allows no others."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files


@cache
def asset(*names: str, of: str = "foltr.report.page") -> str:
    """The content of some files of a package's `assets`, one after the other."""
    folder = files(of) / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8").strip() for name in names)


def policy(script: str, style: str, live: bool) -> str:
    """The content policy of a page with this script and this style sheet. A live page may fetch
    from its own server."""
    rules = (
        "default-src 'none'",
        f"script-src {_hashed(script)}",
        f"style-src {_hashed(style)}",
        "connect-src 'self'" if live else "connect-src 'none'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _hashed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
