"""The text of an audit for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr.core.spec import brief
from foltr.privacy.accounting import Bound
from foltr.privacy.text import epsilon_text
from foltr.simulation.audits.audit import Audit
from foltr.simulation.audits.games import Estimate, Game
from foltr.simulation.audits.labels import MEASURES


def lines(audit: Audit) -> Iterator[str]:
    e = audit.experiment
    yield (
        f"{brief(e.learner)}  {brief(e.ranker)}, {e.cohort:,} clients per round; the server sees"
        f" {audit.view}"
    )
    if audit.left_out:
        yield (f"The audited clients are honest and alike. Left out: {', '.join(audit.left_out)}.")
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
        f"1. Label inference: which documents were clicked?  {audit.clicked} of {audit.made}"
        f" searches have a click ({audit.split}, {brief(audit.users)}); one search per message;"
        " 95 % confidence intervals"
    )
    yield f"{'':36}" + "".join(f"{name:>20}" for name in MEASURES)
    view = None
    for row in audit.labels:
        if row.view != view:
            view = row.view
            here = " (what this server sees)" if view == audit.view else ""
            yield f"{view}{here}: {guarantee_text(row.guarantee)}"
        values = "".join(f"{interval(row.measures[name]):>20}" for name in MEASURES)
        yield f"  {row.attack:<34}{values}"


def guarantee_text(bound: Bound) -> str:
    if math.isinf(bound.epsilon):
        return "there is no privacy guarantee"
    stated = f"the guarantee is epsilon {epsilon_text(bound.epsilon)}"
    if bound.delta:
        return f"{stated} with delta = {bound.delta:g}"
    best = 1.0 / (1.0 + math.exp(-bound.epsilon))  # the best possible share of correct guesses
    return (
        f"{stated}; a guess between two inputs is correct at most {100 * best:.4g} % of the time"
    )


def interval(each: Estimate) -> str:
    if math.isnan(each.mean):
        return "-"
    return f"{each.mean:.3f} ({each.low:.2f}-{each.high:.2f})"


def _games(audit: Audit) -> Iterator[str]:
    yield (
        "2. Distinguishing games: which of two inputs was sent?  Lower bounds of epsilon, with"
        " 99.9 % confidence"
    )
    yield f"{'':36}{'correct':>20}{'epsilon at least':>18}{'guarantee':>12}"
    view = None
    for game in audit.games:
        if game.view != view:
            view = game.view
            yield f"{view} ({game.unit})"
        yield _game(game.name, game.right, game)
    if audit.distance is not None and math.isfinite(audit.distance.allowed):
        r = audit.distance
        verdict = "BROKEN" if r.broken else "holds"
        yield (
            f"  real updates differ by up to {r.found:.3g} ({r.norm} norm); the noise is"
            f" calibrated for {r.allowed:.3g}: {verdict}"
        )
    if audit.enumerated is not None:
        exact = audit.enumerated
        yield (
            f"  exactly, over all lists of {exact.depth}: epsilon {epsilon_text(exact.epsilon)}"
            f" for one interaction of these users; {epsilon_text(exact.bound)} for any users"
            " (Kharitonov 2019, eq. 10)"
        )


def _game(name: str, estimate: Estimate, game: Game) -> str:
    limit = epsilon_text(game.guarantee.epsilon) + ("*" if game.guarantee.delta else "")
    broken = "  BROKEN" if game.broken else ""
    return f"  {name:<34}{interval(estimate):>20}{game.at_least:>18.2f}{limit:>12}{broken}"


def _members(audit: Audit) -> Iterator[str]:
    yield (
        "3. Membership inference: did a client with a known update take part in this round?  (No"
        " guarantee hides participation.)"
    )
    yield f"{'':36}{'AUC':>20}{'epsilon at least':>18}{'guarantee':>12}"
    for each in audit.members:
        is_message = each.view.kind == "message"
        where = f"{each.view.arriving:,} messages" if is_message else str(each.view)
        yield _game(where, each.auc, each.game)


def _verdict(audit: Audit) -> Iterator[str]:
    here = [
        row
        for row in audit.labels
        if row.view == audit.view and not math.isnan(row.measures["AUC"].mean)
    ]
    if here:
        best = max(here, key=lambda row: row.measures["AUC"].mean)
        stated = guarantee_text(best.guarantee)
        yield (
            f'The best attack on what this server sees is "{best.attack}": it finds clicked'
            f" documents with an AUC of {best.measures['AUC'].mean:.2f} (0.5 is chance, 1 is every"
            f" click). {stated[0].upper()}{stated[1:]}."
        )
    if any(game.guarantee.delta for game in audit.all_games):
        yield f"* with delta = {audit.ledger.delta:g}"
    if audit.broken:
        yield (
            "FAILED: an attack achieves more than the stated epsilon allows. The mechanism does"
            " not satisfy its guarantee."
        )
    elif audit.experiment.privacy is None:
        yield (
            "There is no privacy guarantee here that an attack could break. The figures show what"
            " the attacks found."
        )
    else:
        yield (
            "No attack achieved more than the ledger allows. This does not prove the guarantees:"
            " the attacks failed to disprove them."
        )
