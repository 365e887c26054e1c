"""The text of the ledger: why a guarantee is what it is, and the block for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from textwrap import wrap

from foltr.errors import Mistake
from foltr.events import Conditions, Event, GammaNoise, GaussianNoise, RandomizedResponse
from foltr.privacy.accounting import Bound, bound, pure_epsilon

WIDTH = 100
ADDED = "added up"
SIMULATED = (
    "This is a simulation: its noise comes from the experiment's seed and protects nobody. On"
    " devices it must come from the operating system."
)
SHARED = (
    "entropy='shared' sends the very seed that the user's luck is drawn from. It is there to"
    " repeat published figures and promises nothing."
)
NO_GRID = (
    "This privatizer does not say that its messages lie on a grid (`grid` of its events). The last"
    " bits of floating-point numbers can tell what noise should hide: nothing is promised."
)
OVERHEARD = (
    "The messages of malicious clients may depend on those of honest clients. One client can then"
    " change the sum by more than its own message, and the noise is not made for that: nothing is"
    " promised. (An attack of your own that uses no honest message says so: overhears = False.)"
)
REMEMBERS = (
    "The learner keeps numbers on the device. What one round leaves there shapes every later"
    " message of that client, so the epsilon of one client-round is that of all its rounds"
    " together."
)
UNBOUNDED = (
    "Malicious clients may send numbers so large that all others are lost in the rounding of the"
    " sum, and the noise with them: nothing is promised. (Shares behind SecureSum() are added"
    " exactly. A server that adds the noise itself clips the messages, if it gets each.)"
)
VOID = {"shared seed": SHARED, "no grid": NO_GRID, "overheard": OVERHEARD, "unbounded": UNBOUNDED}
BARE_MESSAGES = "Messages are sent as they are. They can tell which documents were clicked."
BARE_SUM = (
    "The server sees only sums, but nothing limits what sums, and the models made of them, tell of"
    " one client."
)


@dataclass(frozen=True)
class Case:
    """The facts that the text depends on."""

    privatized: bool
    rewards: bool  # whether rewards are privatized
    events: tuple[Event, ...]
    given: Conditions
    counted_on: int  # messages per round whose noise is certain
    void: str | None  # why there is no guarantee at all
    round: Bound  # for a client's round, against an observer of models
    total: Bound  # for all its rounds
    delta: float


def epsilon_told(epsilon: float) -> str:
    """An epsilon as text, rounded up, so that a guarantee never appears better than it is."""
    if math.isinf(epsilon):
        return "no limit"
    size = math.floor(math.log10(epsilon)) if epsilon > 0.0 else 0
    digits = 1 - size if size < -2 or size >= 9 else 2 if epsilon < 100.0 else 0
    up = math.ceil(epsilon * 10.0**digits * (1.0 - 1e-9)) / 10.0**digits
    return f"{up:.1e}" if size >= 9 else f"{up:,.{digits}f}"


def counted(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def remarks(case: Case) -> Iterator[str]:
    if not case.privatized:
        yield BARE_SUM if case.given.secure else BARE_MESSAGES
    elif not case.events:
        yield (
            "This privatizer describes nothing that could be accounted for, so nothing is"
            " promised."
        )
    elif case.void == "alone":
        yield (
            "Malicious clients add no noise, or know what they added. There may be"
            f" {case.given.malicious:,} of them among the {case.given.setting.arriving:,} messages"
            " that are sure to make a round: nothing is promised."
        )
    elif case.void:
        yield VOID[case.void]
    else:
        if case.given.remembers:
            yield REMEMBERS
        for event in case.events:
            yield from _of(event, case)
        if case.given.opened:
            yield _opened(case)
        if case.given.times > 1 and math.isfinite(case.total.epsilon):
            yield _composed(case)
        if case.total.secret:
            yield (
                "It counts as secret who takes part in which round, which holds while the server"
                " tells nobody."
            )
        yield SIMULATED


def _composed(case: Case) -> str:
    added = case.given.times * sum(pure_epsilon(event) for event in case.events)
    rounds = "All rounds" if case.total.secret else f"A client's {case.given.times:,} rounds"
    told = (
        f"Every round tells more. {rounds} are"
        f" {'' if case.total.how == ADDED else 'put together '}{case.total.how}"
    )
    if case.total.delta == 0.0 or math.isinf(added):
        return f"{told}."
    return (
        f"{told}, which is tighter than adding up their epsilons ({epsilon_told(added)}, without a"
        " delta)."
    )


def _opened(case: Case) -> str:
    told = (
        f"{case.given.missing:,} malicious or colluding clients could reveal single messages"
        f" together with the server: the secure sum withstands {case.given.withstands:,}. Against"
        " the server only the noise of single messages counts."
    )
    if math.isinf(case.round.epsilon) or all(event.seen == "message" for event in case.events):
        return told
    return (
        f"{told} If none of them helps it, epsilon against it is"
        f" {epsilon_told(case.round.epsilon)} a round."
    )


def _of(event: Event, case: Case) -> Iterator[str]:
    n = case.given.setting.cohort
    if isinstance(event, RandomizedResponse):
        yield from _answers(event, case.rewards)
    if isinstance(event, GammaNoise) and event.d > 1:
        yield _norms(event)
    if isinstance(event, GaussianNoise):
        yield (
            f"One client's data replaced by any other move an update by up to {event.l2:.3g},"
            " twice the clip. Where a paper takes clients as added or removed, it counts half of"
            " that."
        )
    if event.seen == "sum" and case.counted_on < n:
        yield _dropped(event, case)
    if event.seen == "sum" and case.given.secure and case.counted_on == n:
        yield (
            f"All {n:,} messages are counted. Where some may be lost, say so (dropout): fewer"
            " carry less noise."
        )
    if event.seen == "sum" and n > 1 and not case.given.opened:
        yield _masked(n) if case.given.secure else _bare(event, n, case.counted_on)
    if event.seen == "model":
        gets = "the bare sum" if case.given.secure else "every update bare"
        yield (
            f"The server gets {gets} and adds the noise itself: against the server nothing holds."
        )


def _answers(event: RandomizedResponse, rewards: bool) -> Iterator[str]:
    one = epsilon_told(pure_epsilon(event) / event.times)
    if event.p == 1.0:
        yield "p = 1 tells everything as it is: no epsilon holds there."
    elif event.times > 1:
        of = "one interaction" if rewards else "one answer"
        yield f"Epsilon is {one} for {of}; a message holds {event.times:,}, and they add up."


def _norms(event: GammaNoise) -> str:
    """The remark on L1 against L2 sensitivity."""
    whole = replace(event, shape=1.0)
    return (
        f"The noise would give epsilon {event.l2 / event.scale:.3g} if all numbers of a message"
        f" together changed by at most {event.l2:.3g} (L1 norm). But it is their Euclidean length"
        f" that is kept below that (L2 norm): spread over {event.d:,} numbers, they change by"
        f" sqrt({event.d}) = {math.sqrt(event.d):.1f} times as much. So with all shares of the"
        f" noise, epsilon is {epsilon_told(pure_epsilon(whole))} a round without a delta."
    )


def _dropped(event: Event, case: Case) -> str:
    k, n = case.counted_on, case.given.setting.cohort
    if isinstance(event, GammaNoise):
        full: Event = replace(event, shape=1.0)
    elif not isinstance(event, GaussianNoise):
        raise Mistake(
            f"the ledger does not know what is left of {type(event).__name__} when messages are"
            " lost"
        )
    else:
        full = replace(event, sd=event.sd * math.sqrt(n / k))
    was, now = (bound(((each, 1),), case.delta).epsilon for each in (full, event))
    left = f"Only {k:,} of {n:,} shares of the noise are counted on: {_who_takes(case)}"
    if math.isinf(now):
        return f"{left}. With half of the shares or fewer the ledger has no finite bound."
    return (
        f"{left}. So epsilon is at most {epsilon_told(now)} a round, instead of"
        f" {epsilon_told(was)}."
    )


def _who_takes(case: Case) -> str:
    malicious, colluding = case.given.malicious, case.given.colluding
    if not malicious:
        return "the others may be lost, or their clients may reveal them"
    with_others = f" and {counted(colluding, 'colluding client')}" if colluding else ""
    return f"{counted(malicious, 'malicious client')}{with_others} may add none, or reveal theirs"


def _bare(event: Event, n: int, arriving: int) -> str:
    way = 'channel = "SecureSum()" hides single messages.'
    if isinstance(event, GammaNoise):
        scale, share = event.scale / (event.grid or event.scale), event.shape / arriving
        bare = math.exp(
            2.0 * share * math.log(-math.expm1(-1.0 / scale))
        )  # probability of no jump
        return (
            f"Only the sum of {n:,} messages is noisy. One message alone is nearly bare"
            f" ({bare:.0%} of its numbers carry no noise at all), and the server gets each: {way}"
        )
    return (
        f"Only the sum of {n:,} messages is noisy enough. One message carries 1/{math.sqrt(n):.3g}"
        f" of that, and the server gets each: {way}"
    )


def _masked(n: int) -> str:
    return (
        "The server sees only the sum, if it follows the protocol. Clients who collude with it"
        f" give away their shares of the noise, 1/{n:,} of all each, as if they had dropped out:"
        " --colluding counts some."
    )


def block(
    mechanism: str, nominal: str, delta: float, units: tuple[str, ...],
    rows: list[tuple[str, str | None, tuple[Bound, ...]]], said: tuple[str, ...],
) -> list[str]:  # fmt: skip
    """The lines for the terminal."""
    if mechanism == "none":
        text = f"none: {' '.join(said)} Nothing is promised to anybody."
        return _labelled("privacy", text)
    lines = [*_labelled("privacy", mechanism), *_labelled("published as", nominal)]
    cells = [[_cell(each) for each in bounds] for _, _, bounds in rows]
    widths = [max(len(unit), *(len(row[i]) for row in cells)) for i, unit in enumerate(units)]
    names = max(len(who) for who, _, _ in rows)
    heads = "  ".join(unit.rjust(width) for unit, width in zip(units, widths, strict=True))
    lines.append(f"{'epsilon, against':<{names + 2}}  {heads}  if one trusts")
    for (who, trusted, _), row in zip(rows, cells, strict=True):
        shown = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {who:<{names}}  {shown}  {trusted or '-'}")
    starred = any("*" in cell for row in cells for cell in row)
    added = (
        " With a star: any observation is at most exp(epsilon) times as likely, plus delta ="
        f" {delta:g}."
    )
    meaning = (
        "Epsilon limits what can be learned about the unit at the head of the column: whatever is"
        " observed, the odds of any two possibilities change at most exp(epsilon) times: 2.7"
        " times at 1, 150 at 5, 22,000 at 10. No limit: nothing is"
        f" promised.{added if starred else ''}"
    )
    lines += wrap(meaning, WIDTH, initial_indent="  ", subsequent_indent="  ")
    for remark in said:
        lines += wrap(remark, WIDTH, initial_indent="- ", subsequent_indent="  ")
    return lines


def _labelled(label: str, text: str) -> list[str]:
    return wrap(
        text,
        WIDTH,
        initial_indent=f"{label:<14}",
        subsequent_indent=" " * 14,
        break_on_hyphens=False,
    )


def _cell(each: Bound) -> str:
    return epsilon_told(each.epsilon) + ("*" if each.delta else " ")
