"""How a server continues after its state was restored from a backup.

Nodes may have answered rounds since the backup was made. A device answers no such round again, and
counts it in its budget. So the server must continue after the last round that a node has answered;
otherwise rounds would be refused, or cost clients more than the server's ledger says.

Each node tells its last round when it accepts the agreement. If no node has answered since the
backup, the server continues by itself. Otherwise the operator decides (`--continue-after`): a node
that lies could name a high round, and all rounds before it would be lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from foltr.core.errors import Mistake, require
from foltr.core.federation import State
from foltr.deployment.protocol.messages import NewSession
from foltr.deployment.server.state import Restored, ServerState

if TYPE_CHECKING:
    from foltr.deployment.server.federation import Federation

SHOWN = 20  # nodes that a message names
TRIES = 5  # sessions that may be lost meanwhile


def check_after(state: ServerState, after: int | None, rounds: int) -> None:
    """Refuse `--continue-after` where it does not fit."""
    if after is None:
        return
    restored = state.restored
    if restored is None:  # perhaps the same command was run before
        now = state.load()
        plain = f"{state.folder} was not restored from a backup: leave --continue-after out"
        require(now is not None and now.t >= after, plain)
        return
    fits = restored.round <= after <= rounds
    within = f"expected {restored.round} (the backup) to {rounds} (the agreed rounds)"
    require(fits, f"--continue-after {after}: {within}")


def resume(federation: Federation, after: int | None, command: str) -> State:
    """The saved state. If it was restored from a backup, it is saved with the round after which
    the server continues.

    after: the operator's choice of this round; None asks the nodes
    command: the command that the operator is told to run, without the round"""
    state, rounds = federation.state, federation.agreement.rounds
    now, restored = state.load(), state.restored
    assert now is not None  # `Rounds.start` has saved one
    if restored is None:
        return now
    if after is None:
        told = ask_last_rounds(federation)
        newer = not told.is_complete or told.highest() > now.t
        require(not newer, told.refusal(restored, rounds, command))
        federation.note("restored from a backup: no node has answered a round since then")
    later = max(after or 0, now.t)
    forgotten = state.forgotten
    if plan := forgotten.plan:  # an unlearning that had begun goes on there
        first = plan.first + later - now.t
        stored = plan.stored[: max(0, rounds - first)]
        forgotten = replace(forgotten, plan=replace(plan, first=first, stored=stored), since=first)
    carried = replace(now, t=later)
    state.continue_restored(carried, forgotten)
    federation.note(
        f"restored from a backup of round {restored.round}: continuing after round {carried.t}"
    )
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

    def refusal(self, restored: Restored, rounds: int, command: str) -> str:
        """Why the server does not continue by itself, and how it does."""
        known = {name: n for name, n in self.nodes.items() if n is not None}
        order = sorted(known.items(), key=lambda item: (-item[1], item[0]))
        told = ", ".join(f"{name} {n}" for name, n in order[:SHOWN]) or "none"
        more = f", and {len(order) - SHOWN} more" if len(order) > SHOWN else ""
        away = sorted(self.nodes.keys() - known.keys())
        unknown = f"; not known of {', '.join(away[:SHOWN])}" if away else ""
        after = max(self.highest(rounds), restored.round)
        return (
            f"this state was restored from a backup after round {restored.round}, made"
            f" {restored.made}. Last rounds that nodes have answered: {told}{more}{unknown}."
            f"{self._doubts(order, restored.round, rounds)} If this is right, continue after the"
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


def ask_last_rounds(federation: Federation) -> LastRounds:
    """Ask all connected nodes for the last round that they have answered."""
    live = federation.live
    found: dict[str, int | None] = {seat.name: None for seat in live().active}
    for _ in range(TRIES):
        federation.greeted.clear()  # each is greeted again
        federation.refused.clear()
        try:
            there = federation.agreeing()
        except NewSession:
            continue
        told = {live.name_of(node): federation.welcomes[node].answered for node in there}
        return LastRounds(found | {name: last for name, last in told.items() if name in found})
    raise Mistake("the SuperLink loses every session: see its log")
