"""Errors in users' own components: where it happened, in whose method and in which round, without
the lines of foltr's own that led there."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType

from foltr.advice.components import origin, ours
from foltr.advice.imports import advice, home_of
from foltr.advice.other_names import MEMBERS
from foltr.errors import Mistake, near
from foltr.federation import federate
from foltr.spec import FAMILIES

FOLTR = Path(__file__).parents[1]  # the folder of the package


def in_users_code(error: BaseException) -> str:
    """The message for an error that was raised in a user's component: one line that says where and
    what, and the user's own lines; empty if no user's code took part, and for errors that explain
    themselves."""
    if isinstance(error, Mistake):
        return ""
    frames, users = list(_frames(error)), _users_files()
    own = [(frame, line) for frame, line in frames if frame.f_code.co_filename in users]
    if not own:
        return ""
    after = [frame for frame, _ in frames[frames.index(own[-1]) + 1 :]]
    if isinstance(error, FloatingPointError | MemoryError | OSError) and any(map(_ours, after)):
        return ""  # foltr raised it, and says what to do
    first, (last, line) = own[0][0], own[-1]
    where = [*_round(frames), *getattr(error, "__notes__", [])]
    place = f"{Path(last.f_code.co_filename).name}, line {line}"
    what = f"{type(error).__name__}: {error}{_hint(error, last)}"
    method = first.f_code.co_qualname.replace("<locals>.", "")
    head = f"{method} failed ({', '.join([*where[-1:], place])}): {what}"
    listed = traceback.format_list(traceback.StackSummary.extract(iter(own)))
    return "\n".join([head, *"".join(listed).rstrip().splitlines()])


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Where an error passed through; of one that was raised anew, to say of which client it is,
    where the first one did too."""
    yield from traceback.walk_tb(error.__traceback__)
    if isinstance(error, FloatingPointError) and error.__cause__ is not None:
        yield from _frames(error.__cause__)


def _ours(frame: FrameType) -> bool:
    return FOLTR in Path(frame.f_code.co_filename).parents


def _users_files() -> set[str]:
    """The files outside foltr that registered components are defined in."""
    found = [cls for family in FAMILIES for cls in family.members().values()]
    return {origin(cls) for cls in found if not ours(cls)}


def _round(frames: list[tuple[FrameType, int]]) -> list[str]:
    """The round that was being computed, if any was."""
    rounds = [frame.f_locals["t"] for frame, _ in frames if frame.f_code is federate.__code__]
    return [f"round {t}" for t in rounds[-1:]]


def _hint(error: BaseException, frame: FrameType) -> str:
    """How to correct what an earlier foltr allowed, and what is never allowed."""
    if isinstance(error, ImportError):
        try:
            return advice(Path(frame.f_code.co_filename).read_bytes())
        except OSError:
            return ""
    if isinstance(error, AttributeError) and isinstance(error.name, str):
        if isinstance(error.obj, ModuleType):
            home = home_of(error.obj.__name__, error.name)
            return f". Now it is {'.'.join(home)}" if home else ""
        member = MEMBERS.get(error.name)
        if member is not None and ours(type(error.obj)):
            return f". Now it is {member.now}"
        close = near(error.name, (name for name in dir(error.obj) if not name.startswith("_")))
        return f". Did you mean {close!r}?" if close else ""
    if isinstance(error, TypeError):
        found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        member = MEMBERS.get(found[1]) if found else None
        return f". Now it is {member.now}" if member else ""
    if isinstance(error, ValueError) and "read-only" in str(error):
        return ". What foltr gives to a component may not be changed: copy it first"
    return ""
