"""What a tool that keeps logs of runs must do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Row = tuple[int, dict[str, float]]  # rounds done, and the values that are known then, by tag
FINAL = "final/"  # how the tags of final measures begin


@dataclass(frozen=True)
class About:
    """The run that is logged."""

    folder: Path
    toml: str  # its config.toml
    fields: dict[str, Any]  # every field of the experiment and of its components, by dotted name

    @property
    def name(self) -> str:
        return self.folder.name


class Sink(Protocol):
    """The log of one run in one tool. It is opened by calling its class with an `About`; that, and
    any of these, may raise whatever the tool's library raises."""

    first: int  # the first round that is not in the log yet: what to write begins there
    complete: bool  # whether the log already holds a finished run

    def write(self, rows: list[Row]) -> None:
        """Add rounds, in their order, and make sure that a reader can see them."""
        ...

    def finish(self, rounds: int, final: dict[str, float]) -> None:
        """Add the final measures of a run that is finished after so many rounds."""
        ...

    def close(self) -> None:
        """End the log for now. A run that is not finished may be continued later."""
        ...


def tag(group: str, name: str) -> str:
    """The name of a measure in a log: offline/ndcg_at_10. MLflow and TensorBoard refuse or replace
    other characters."""
    for sign, word in (("@", "_at_"), ("=", "_eq_"), ("+", "_plus_")):
        name = name.replace(sign, word)
    return f"{group}/{name}"
