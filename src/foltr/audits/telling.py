"""The text of an audit for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr.audits.audit import Audit
from foltr.audits.games import Game
from foltr.audits.intervals import Estimate
from foltr.audits.labels import MEASURES
from foltr.audits.noise import View
from foltr.privacy.accounting import Bound
from foltr.privacy.text import epsilon_told
from foltr.spec import brief


def lines(audit: Audit) -> Iterator[str]:
    e = audit.experiment
    yield (
        f"{brief(e.learner)}  {brief(e.ranker)}, {e.cohort:,} clients in a round; the server sees"
        f" {audit.view}"
    )
    if audit.left_out:
        yield (
            "audited are searches of clients who are alike and honest:"
            f" {', '.join(audit.left_out)} left out"
        )
    yield ""
    yield from audit.ledger.lines()
    yield ""
    yield from _labels(audit)
    yield ""
    yield from _games(audit)
    if audit.members:
        yield ""
        yield from _members(audit)
    yield ""
    yield from _verdict(audit)


def _labels(audit: Audit) -> Iterator[str]:
    yield (
        f"1. Which documents were clicked?  {audit.clicked} searches with a click, of {audit.made}"
        f" ({audit.split}, {brief(audit.users)}); one search per message; 95 % intervals"
    )
    yield f"{'':36}" + "".join(f"{name:>20}" for name in MEASURES)
    view = None
    for row in audit.labels:
        if row.view != view:
            view = row.view
            yield f"{view}{_here(audit, view)}: {promised(row.promised)}"
        yield f"  {row.attack:<34}" + "".join(
            f"{interval(row.measures[name]):>20}" for name in MEASURES
        )


def _here(audit: Audit, view: View) -> str:
    return " (what this server sees)" if view == audit.view else ""


def promised(bound: Bound) -> str:
    if math.isinf(bound.epsilon):
        return "nothing is promised"
    but = f" with delta = {bound.delta:g}" if bound.delta else ""
    best = 1.0 / (1.0 + math.exp(-bound.epsilon))  # the best possible share of correct guesses
    sure = (
        f"; a guess between two is right {100 * best:.4g} % of the time at most"
        if not bound.delta
        else ""
    )
    return f"promised is epsilon {epsilon_told(bound.epsilon)}{but}{sure}"


def interval(each: Estimate) -> str:
    if math.isnan(each.mean):
        return "-"
    return f"{each.mean:.3f} ({each.low:.2f}-{each.high:.2f})"


def _games(audit: Audit) -> Iterator[str]:
    yield (
        "2. Which of two was it?  Played many times; epsilon is at least that, with 99.9 %"
        " confidence"
    )
    yield f"{'':36}{'right':>20}{'epsilon at least':>18}{'promised':>12}"
    view = None
    for game in audit.games:
        if game.view != view:
            view = game.view
            yield f"{view} ({game.unit})"
        yield _game(game, interval(game.right))
    if audit.reach is not None and math.isfinite(audit.reach.allowed):
        r = audit.reach
        kept = "BROKEN" if r.broken else "kept"
        yield (
            f"  real updates are up to {r.found:.3g} apart ({r.norm}); the noise is made for"
            f" {r.allowed:.3g}: {kept}"
        )
    if audit.enumerated is not None:
        exact = audit.enumerated
        yield (
            f"  over all lists of {exact.depth}, exactly: epsilon {epsilon_told(exact.epsilon)}"
            " for one interaction of these users; of any users (Kharitonov 2019, eq. 10):"
            f" {epsilon_told(exact.bound)}"
        )


def _game(game: Game, measure: str) -> str:
    limit = epsilon_told(game.promised.epsilon) + ("*" if game.promised.delta else "")
    return f"  {game.name:<34}{measure:>20}{game.at_least:>18.2f}{limit:>12}" + (
        "  BROKEN" if game.broken else ""
    )


def _members(audit: Audit) -> Iterator[str]:
    yield (
        "3. Is a client whose update is known in this round?  (Who takes part is promised to"
        " nobody.)"
    )
    yield f"{'':36}{'AUC':>20}{'epsilon at least':>18}{'promised':>12}"
    for each in audit.members:
        where = (
            f"{each.view.arriving:,} messages" if each.view.kind == "message" else str(each.view)
        )
        limit = epsilon_told(each.game.promised.epsilon) + (
            "*" if each.game.promised.delta else ""
        )
        broken = "  BROKEN" if each.game.broken else ""
        yield (
            f"  {where:<34}{interval(each.auc):>20}{each.game.at_least:>18.2f}{limit:>12}{broken}"
        )


def _verdict(audit: Audit) -> Iterator[str]:
    here = [
        row
        for row in audit.labels
        if row.view == audit.view and not math.isnan(row.measures["AUC"].mean)
    ]
    if here:
        best = max(here, key=lambda row: row.measures["AUC"].mean)
        yield (
            f'The best attack on what this server sees is "{best.attack}": it finds clicked'
            f" documents with an AUC of {best.measures['AUC'].mean:.2f} (0.5 is chance, 1 is every"
            f" click). {promised(best.promised)[0].upper()}{promised(best.promised)[1:]}."
        )
    if any(game.promised.delta for game in (*audit.games, *(each.game for each in audit.members))):
        yield f"* with delta = {audit.ledger.delta:g}"
    if audit.broken:
        yield (
            "FAILED: an attack achieves more than the stated epsilon allows. The mechanism does"
            " not keep its promise."
        )
    elif audit.experiment.privacy is None:
        yield (
            "Nothing is promised here, so nothing was broken: what the attacks found is what there"
            " is to find."
        )
    else:
        yield (
            "No attack achieved more than the ledger allows. That proves no promise: it failed to"
            " disprove them."
        )
