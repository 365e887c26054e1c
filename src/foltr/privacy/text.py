"""The text of the ledger: why a guarantee is what it is, and the block for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from textwrap import wrap

from foltr.core.errors import Mistake
from foltr.core.events import Conditions, Event, GammaNoise, GaussianNoise, RandomizedResponse
from foltr.privacy.accounting import Bound, bound, pure_epsilon

WIDTH = 100
ADDED = "added up"
NO_GUARANTEE = "There is no privacy guarantee."
SIMULATED = (
    "This is a simulation. Its noise comes from the experiment's seed and protects nobody. On"
    " devices the noise must come from the operating system."
)
SHARED = (
    "entropy='shared' sends the seed of the user's random draws. It exists to repeat published"
    f" figures. {NO_GUARANTEE}"
)
NO_GRID = (
    "This privatizer does not state that its messages lie on a grid (`grid` of its events). The"
    " last bits of floating-point numbers can reveal what the noise should hide."
    f" {NO_GUARANTEE}"
)
OVERHEARD = (
    "The messages of malicious clients may depend on those of honest clients. One client can then"
    " change the sum by more than its own message. The noise is not calibrated for that."
    f" {NO_GUARANTEE} (An attack of your own that uses no honest message declares overhears ="
    " False.)"
)
REMEMBERS = (
    "The learner keeps numbers on the device. One round of a client can change all its later"
    " messages. So the epsilon of one client-round is the epsilon of all its rounds together."
)
STORES = (
    "In unlearning, devices use what they stored of messages that have no noise of their own. One"
    " round of training can change a message of unlearning. So the epsilon of one client-round is"
    " the epsilon of all its rounds together."
)
UNBOUNDED = (
    "Malicious clients may send numbers so large that all other messages, and the noise, are lost"
    f" in the rounding of the sum. {NO_GUARANTEE} (SecureSum() adds noise shares exactly. A server"
    " that adds the noise itself clips the messages, if it receives each one.)"
)
REPEATABLE = (
    "Devices draw their noise by address, as a simulation does, and not from the operating system."
    f" The server can compute the noise and subtract it. It is for tests. {NO_GUARANTEE}"
)
VOID = {
    "repeatable": REPEATABLE,
    "shared seed": SHARED,
    "no grid": NO_GRID,
    "overheard": OVERHEARD,
    "unbounded": UNBOUNDED,
}
PLAIN_MESSAGES = (
    "Clients send their updates unprotected. An update can reveal which documents were clicked."
)
PLAIN_SUM = (
    "The server sees only sums. Nothing limits what the sums, and the models computed from them,"
    " reveal about one client."
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
    later: tuple[tuple[Event, ...], ...] = ()  # the events of a round of each phase of unlearning


def epsilon_text(epsilon: float) -> str:
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
        yield PLAIN_SUM if case.given.secure else PLAIN_MESSAGES
    elif not case.events:
        yield f"This privatizer describes nothing that could be accounted for. {NO_GUARANTEE}"
    elif case.void == "alone":
        yield (
            "Malicious clients add no noise, or know the noise that they added. A round may"
            f" consist of {case.given.setting.least_arriving:,} messages, and"
            f" {_adversarial(case)} may be among them. {NO_GUARANTEE}"
        )
    elif case.void:
        yield VOID[case.void]
    else:
        if case.given.remembers:
            yield REMEMBERS
        if case.given.stores:
            yield STORES
        for event in case.events:
            yield from _of(event, case)
        if opened := [each for each in case.given.stretches if each.opened]:
            yield _opened(case, opened[0])
        if case.given.later:
            yield _unlearned(case)
        if case.given.most > 1 and math.isfinite(case.total.epsilon):
            yield _composed(case)
        if case.total.secret:
            yield (
                "Who takes part in which round is assumed to be secret. The server must not reveal"
                " it."
            )
        if not case.given.real:
            yield SIMULATED


def _composed(case: Case) -> str:
    each = [sum(map(pure_epsilon, events)) for events in (case.events, *case.later)]
    added = max(
        sum(count * one for count, one in zip(take, each, strict=True) if count)
        for take in case.given.counts
    )
    rounds = "all rounds" if case.total.secret else f"a client's {case.given.most:,} rounds"
    if case.total.how == ADDED:
        composed = f"The epsilons of {rounds} are added up"
    else:
        composed = f"{rounds[0].upper()}{rounds[1:]} are composed {case.total.how}"
    text = f"Every round reveals more. {composed}"
    if case.total.delta == 0.0 or math.isinf(added):
        return f"{text}."
    return (
        f"{text}, which is tighter than adding up their epsilons ({epsilon_text(added)}, without a"
        " delta)."
    )


def _unlearned(case: Case) -> str:
    given = case.given
    more = sum(each.rounds for each in given.later)
    cohorts = {each.setting.cohort for each in given.later} - {given.setting.cohort}
    sizes = f", of {' or '.join(f'{n:,}' for n in sorted(cohorts))} clients" if cohorts else ""
    text = (
        f"Unlearning makes up to {counted(more, 'round')} after the {given.rounds:,} of"
        f" training{sizes}. They are counted: epsilon is of training and unlearning together."
        " Forgetting refunds nothing: what a client has spent stays spent, also if it left."
    )
    by_server = any(event.seen == "model" for event in case.events)
    if by_server and given.setting.cohort < given.clients - 1:
        text += " That nobody knows who takes part is not counted in runs with unlearning."
    first, *later = (
        bound(tuple((event, 1) for event in events), case.delta).epsilon
        for events in (case.events, *case.later)
    )
    if max(later) <= first * (1.0 + 1e-3) or math.isinf(first):
        return text
    return (
        f"{text} A round of unlearning may have epsilon {epsilon_text(max(later))}, one of"
        f" training {epsilon_text(first)}."
    )


def _opened(case: Case, given: Conditions) -> str:
    when = "" if given is case.given else " in rounds of unlearning"
    text = (
        f"{counted(given.missing, 'malicious or colluding client')} could reveal single"
        f" messages to the server{when}. The secure sum withstands {given.withstands:,}. Against"
        " the server, only the noise of each single message counts."
    )
    if math.isinf(case.round.epsilon) or all(event.seen == "message" for event in case.events):
        return text
    return (
        f"{text} If none of them colludes with the server, epsilon against the server is"
        f" {epsilon_text(case.round.epsilon)} a round."
    )


def _of(event: Event, case: Case) -> Iterator[str]:
    n = case.given.setting.cohort
    if isinstance(event, RandomizedResponse):
        yield from _answers(event, case.rewards)
    if isinstance(event, GammaNoise) and event.d > 1:
        yield _norms(event)
    if isinstance(event, GaussianNoise):
        yield (
            f"Replacing one client's data changes an update by up to {event.l2:.3g}, twice the"
            " clip. A paper that adds or removes a client instead counts half of that."
        )
    if event.seen == "sum" and case.counted_on < n:
        yield _dropped(event, case)
    if event.seen == "sum" and case.given.secure and case.counted_on == n:
        yield (
            f"The noise shares of all {n:,} messages are counted. Set dropout if messages can be"
            " lost: fewer messages carry less noise."
        )
    if event.seen == "sum" and n > 1 and not case.given.opened:
        yield _summed(case) if case.given.secure else _single(event, n, case.counted_on)
    if event.seen == "model":
        gets = "the sum" if case.given.secure else "every update"
        yield (
            f"The server receives {gets} without noise and adds the noise itself. There is no"
            " guarantee against the server."
        )


def _answers(event: RandomizedResponse, rewards: bool) -> Iterator[str]:
    one = epsilon_text(pure_epsilon(event) / event.times)
    if event.p == 1.0:
        yield "With p = 1 every answer is sent unchanged. No finite epsilon holds."
    elif event.times > 1:
        unit = "interaction" if rewards else "answer"
        yield (
            f"Epsilon is {one} for one {unit}. A message contains {event.times:,} {unit}s, and"
            " their epsilons add up."
        )


def _norms(event: GammaNoise) -> str:
    """The remark on L1 against L2 sensitivity."""
    whole = replace(event, shape=1.0)
    return (
        f"The noise would give epsilon {event.l2 / event.scale:.3g} if a message changed"
        f" by at most {event.l2:.3g} in L1 norm. But only the L2 norm of the change is limited to"
        f" {event.l2:.3g}. Over {event.d:,} numbers, its L1 norm can be sqrt({event.d}) ="
        f" {math.sqrt(event.d):.1f} times as large. So with all shares of the noise, epsilon is"
        f" {epsilon_text(pure_epsilon(whole))} a round without a delta."
    )


def _dropped(event: Event, case: Case) -> str:
    k, n = case.counted_on, case.given.setting.cohort
    if isinstance(event, GammaNoise):
        full: Event = replace(event, shape=1.0)
    elif not isinstance(event, GaussianNoise):
        raise Mistake(
            f"the ledger cannot account for {type(event).__name__} in a sum from which messages"
            " are lost"
        )
    else:
        full = replace(event, sd=event.sd * math.sqrt(n / k))
    was, now = (bound(((each, 1),), case.delta).epsilon for each in (full, event))
    left = f"Only {k:,} of {n:,} shares of the noise are counted. {_why_not_all(case)}"
    if math.isinf(now):
        return f"{left} With half of the shares or fewer the ledger has no finite bound."
    was_text, now_text = epsilon_text(was), epsilon_text(now)
    return f"{left} So epsilon is at most {now_text} a round, instead of {was_text}."


def _why_not_all(case: Case) -> str:
    if not case.given.malicious:
        return "The others may be lost, or their clients may reveal them."
    return f"{_adversarial(case)} may add no share, or reveal theirs."


def _adversarial(case: Case) -> str:
    """The malicious and colluding clients of a round, counted."""
    malicious = counted(case.given.malicious, "malicious client")
    if not case.given.colluding:
        return malicious
    return f"{malicious} and {counted(case.given.colluding, 'colluding client')}"


def _single(event: Event, n: int, arriving: int) -> str:
    """The remark on a single message of a sum that the server receives."""
    way = 'The server receives every message. Use channel = "SecureSum()" to hide single messages.'
    if isinstance(event, GammaNoise):
        scale, share = event.scale / (event.grid or event.scale), event.shape / arriving
        # probability of no jump
        bare = math.exp(2.0 * share * math.log(-math.expm1(-1.0 / scale)))
        return (
            f"Only the sum of {n:,} messages carries the whole noise. In a single message"
            f" {bare:.0%} of the numbers carry no noise at all. {way}"
        )
    return (
        f"Only the sum of {n:,} messages carries the whole noise. A single message carries"
        f" 1/{math.sqrt(n):.3g} of it. {way}"
    )


def _summed(case: Case) -> str:
    n, simulated = case.given.setting.cohort, " The option --colluding counts such clients."
    return (
        "The server sees only the sum, if it follows the protocol. A client that colludes with the"
        f" server reveals its share of the noise, 1/{n:,} of the whole, as if it had dropped out."
        f"{' No such client is counted.' if case.given.real else simulated}"
    )


def block(
    mechanism: str, nominal: str, delta: float, units: tuple[str, ...],
    rows: list[tuple[str, str | None, tuple[Bound, ...]]], notes: tuple[str, ...],
) -> list[str]:  # fmt: skip
    """The lines for the terminal."""
    if mechanism == "none":
        text = f"none. {' '.join(notes)} {NO_GUARANTEE}"
        return _labelled("privacy", text)
    lines = [*_labelled("privacy", mechanism), *_labelled("published as", nominal)]
    cells = [[_cell(each) for each in bounds] for _, _, bounds in rows]
    widths = [max(len(unit), *(len(row[i]) for row in cells)) for i, unit in enumerate(units)]
    names = max(len(who) for who, _, _ in rows)
    heads = "  ".join(unit.rjust(width) for unit, width in zip(units, widths, strict=True))
    lines.append(f"{'epsilon, against':<{names + 2}}  {heads}  requires trust in")
    for (who, trusted, _), row in zip(rows, cells, strict=True):
        shown = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {who:<{names}}  {shown}  {trusted or '-'}")
    starred = any("*" in cell for row in cells for cell in row)
    added = (
        " With a star: any observation is at most exp(epsilon) times as likely, plus delta ="
        f" {delta:g}."
    )
    meaning = (
        "Epsilon limits what an adversary can learn about the unit at the head of the column."
        " Whatever it observes, the odds of any two possibilities change at most exp(epsilon)"
        " times: 2.7 times at 1, 150 at 5, 22,000 at 10. No limit: there is no"
        f" guarantee.{added if starred else ''}"
    )
    lines += wrap(meaning, WIDTH, initial_indent="  ", subsequent_indent="  ")
    for remark in notes:
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
    return epsilon_text(each.epsilon) + ("*" if each.delta else " ")
