"""The error class for mistakes that a user can correct."""

import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class Mistake(ValueError):
    """Invalid input. The message names the value and how to correct it; the command line prints it
    and exits with code 2."""


def require(ok: bool, message: str) -> None:
    """Refuse an impossible setting."""
    if not ok:
        raise Mistake(message)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: the nearest known one, or all of them."""
    names = sorted(known)
    close = near(word, names)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(names)}"


def near(word: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one is nearest to, if any is near."""
    names = sorted(known)
    found = [name for name in names if name.casefold() == word.casefold()]
    found = found or get_close_matches(word, names, 1)
    return found[0] if found else None


def shortened(text: str, length: int = 200) -> str:
    return text if len(text) <= length else f"{text[:length]}..."


def shown(value: object) -> str:
    """A value as text for an error message. Some values have no repr or one that is too long."""
    # an integer of thousands of digits; lists in lists in lists
    try:
        return shortened(repr(value))
    except (ValueError, RecursionError):
        return f"{with_article(type(value).__name__)} that is too long to show"


def with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def explained(error: BaseException) -> str:
    """An error as a message to the user: what failed and, if known, how to correct it."""
    if isinstance(error, FloatingPointError):
        return (
            f"{error}: the steps are too large (lr, mu, the server's lr), or the features are"
            " (normalize=True)"
        )
    if isinstance(error, MemoryError):
        return f"not enough memory: {error or 'try fewer clients, hidden units or queries'}"
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {error.strerror or error}"
    if isinstance(error, Mistake):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)
    at = f" ({Path(where[-1].filename).name}, line {where[-1].lineno})" if where else ""
    return f"{type(error).__name__}: {error}{at}"
