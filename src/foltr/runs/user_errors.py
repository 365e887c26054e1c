"""Errors in users' own components: where it happened, in whose method and in which round, without
the lines of foltr's own that led there."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from types import FrameType, ModuleType

from foltr.advice.components import origin, ours
from foltr.advice.imports import advice, home_of
from foltr.advice.other_names import MEMBERS
from foltr.errors import Mistake, near
from foltr.federation import federate
from foltr.spec import FAMILIES


def in_users_code(error: BaseException) -> str:
    """The message for an error that was raised in a user's component: one line that says where and
    what, and the user's own lines; empty if no user's code took part, and for errors that explain
    themselves."""
    if isinstance(error, Mistake | FloatingPointError | MemoryError | OSError):
        return ""
    frames = list(traceback.walk_tb(error.__traceback__))
    users = _users_files()
    own = [(frame, line) for frame, line in frames if frame.f_code.co_filename in users]
    if not own:
        return ""
    first, (last, line) = own[0][0], own[-1]
    where = [*_round(frames), *getattr(error, "__notes__", [])]
    place = f"{Path(last.f_code.co_filename).name}, line {line}"
    what = f"{type(error).__name__}: {error}{_hint(error, last)}"
    method = first.f_code.co_qualname.replace("<locals>.", "")
    head = f"{method} failed ({', '.join([*where[-1:], place])}): {what}"
    listed = traceback.format_list(traceback.StackSummary.extract(iter(own)))
    return "\n".join([head, *"".join(listed).rstrip().splitlines()])


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
