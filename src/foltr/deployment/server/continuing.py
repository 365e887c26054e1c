"""How a server continues after its state was restored from a backup.

Nodes may have answered rounds since the backup was made. A device answers no such round again, and
counts it in its budget. So the server must continue after the last round that a node has answered;
otherwise rounds would be refused, or cost clients more than the server's ledger says.

Each node tells its last round when it accepts the agreement. If no node has answered since the
backup, the server continues by itself. Otherwise the operator decides (`--continue-after`): a node
that lies could name a high round, and all rounds before it would be lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from foltr.core.errors import Mistake, require
from foltr.core.federation import State
from foltr.core.system.log import Tell
from foltr.deployment.protocol.exchange import Nodes
from foltr.deployment.protocol.messages import NewSession
from foltr.deployment.server.live_roster import LiveRoster
from foltr.deployment.server.restore import is_unfinished, read_mark, remove_mark, replace_mark
from foltr.deployment.server.state import ServerState

SHOWN = 20  # nodes that a message names
TRIES = 5  # sessions that may be lost meanwhile


def check_mark(state: ServerState, after: int | None, rounds: int) -> dict[str, Any] | None:
    """The mark of a restored state, if there is one. Refuses `--continue-after` where it does not
    fit."""
    mark = read_mark(state.path)
    whole = f"{state.path} was restored only in part: `foltr restore` again"
    require(not is_unfinished(mark), whole)
    if after is None:
        return mark
    if mark is None:  # perhaps the same command was run before
        now = state.load()
        plain = f"{state.path} was not restored from a backup: leave --continue-after out"
        require(now is not None and now.t >= after, plain)
        return None
    fits = mark["round"] <= after <= rounds
    within = f"expected {mark['round']} (the backup) to {rounds} (the agreed rounds)"
    require(fits, f"--continue-after {after}: {within}")
    return mark


def resume(
    state: ServerState,
    now: State,
    mark: Mapping[str, Any],
    after: int | None,
    rounds: int,
    said: Callable[[], LastRounds],
    command: str,
    tell: Tell,
) -> State:
    """Continue with a restored state: save it with the round after which the server continues, and
    remove the mark. Returns this state.

    after: the operator's choice of this round; None asks the nodes
    rounds: number of agreed rounds
    said: asks the nodes for their last rounds
    command: the command that the operator is told to run, without the round"""
    decided = mark.get("decided")  # it was interrupted after the choice
    if decided is None:
        if after is None:
            told = said()
            require(
                told.is_complete and told.highest() <= now.t, told.refusal(mark, rounds, command)
            )
            tell("restored from a backup: no node has answered a round since then")
        later = max(after or 0, now.t)
        plan = state.forgotten.get("plan")
        first = None if plan is None else plan["first"] + later - now.t
        decided = {"rounds": later, "first": first}
        replace_mark(state.path, {**mark, "decided": decided})
    carried = replace(now, t=decided["rounds"])
    if decided["first"] is not None:  # an unlearning that had begun goes on there
        about = state.forgotten
        room = max(0, rounds - decided["first"])
        stored = list(about["plan"]["stored"])[:room]
        plan = {**about["plan"], "first": decided["first"], "stored": stored}
        state.set_forgotten({**about, "plan": plan, "since": decided["first"]})
    state.save(carried)
    remove_mark(state.path)
    tell(f"restored from a backup of round {mark['round']}: continuing after round {carried.t}")
    return carried


@dataclass(frozen=True)
class LastRounds:
    """The last round that each node has answered: name -> its number, from 1; 0 if it has answered
    none; None if it is not known."""

    nodes: Mapping[str, int | None]

    @property
    def is_complete(self) -> bool:
        return None not in self.nodes.values()

    def highest(self, rounds: int | None = None) -> int:
        """The highest number; with `rounds`, the highest one that is not larger."""
        known = [n for n in self.nodes.values() if n is not None]
        return max((n for n in known if rounds is None or n <= rounds), default=0)

    def refusal(self, mark: Mapping[str, Any], rounds: int, command: str) -> str:
        """Why the server does not continue by itself, and how it does."""
        known = {name: n for name, n in self.nodes.items() if n is not None}
        order = sorted(known.items(), key=lambda item: (-item[1], item[0]))
        told = ", ".join(f"{name} {n}" for name, n in order[:SHOWN]) or "none"
        more = f", and {len(order) - SHOWN} more" if len(order) > SHOWN else ""
        away = sorted(self.nodes.keys() - known.keys())
        unknown = f"; not known of {', '.join(away[:SHOWN])}" if away else ""
        after = max(self.highest(rounds), mark["round"])
        return (
            f"this state was restored from a backup after round {mark['round']}, made"
            f" {mark['made']}. Last rounds that nodes have answered: {told}{more}{unknown}."
            f"{self._doubts(order, mark['round'], rounds)} If this is right, continue after the"
            f" last one: {command}{after}"
        )

    def _doubts(self, order: list[tuple[str, int]], backup: int, rounds: int) -> str:
        """Numbers that a node may have invented, as text."""
        doubts = [
            f" {name} says {n}, and only {rounds} are agreed." for name, n in order if n > rounds
        ]
        possible = [(name, n) for name, n in order if n <= rounds]
        if len(possible) > 1:
            (first, highest), (_, second) = possible[:2]
            second = max(second, backup)
            if highest > second:
                doubts.append(f" Only {first} names a round after {second}: ask its operator.")
        return "".join(doubts[:SHOWN])


def ask_last_rounds(engine: Nodes, live: LiveRoster) -> LastRounds:
    """Ask all connected nodes for the last round that they have answered."""
    found: dict[str, int | None] = {seat.name: None for seat in live().active}
    for _ in range(TRIES):
        engine.greeted.clear()  # each is greeted again
        engine.refused.clear()
        try:
            there = engine.agreeing()
        except NewSession:
            continue
        told = {live.name_of(node): engine.welcomes[node].answered for node in there}
        return LastRounds(found | {name: last for name, last in told.items() if name in found})
    raise Mistake("the SuperLink loses every session: see its log")
