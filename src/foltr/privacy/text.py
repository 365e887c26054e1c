"""The guarantees of a run in words: why they are what they are, and the block for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from textwrap import wrap

from foltr.core.errors import Mistake
from foltr.core.events import Conditions, Event, GammaNoise, GaussianNoise, RandomizedResponse
from foltr.core.system.tables import count
from foltr.privacy.accounting import ADDED, Bound, bound, pure_epsilon
from foltr.privacy.adversaries import TITLES, Account, AdversaryGuarantees

WIDTH = 100
NO_GUARANTEE = "There is no privacy guarantee."
SIMULATED = (
    "This is a simulation. Its noise comes from the experiment's seed and protects nobody. On"
    " devices the noise must come from the operating system."
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
VOID = {  # why there is no guarantee at all
    "repeatable": (
        "Devices draw their noise by address, as a simulation does, and not from the operating"
        " system. The server can compute the noise and subtract it. It is for tests."
        f" {NO_GUARANTEE}"
    ),
    "shared seed": (
        "entropy='shared' sends the seed of the user's random draws. It exists to repeat"
        f" published figures. {NO_GUARANTEE}"
    ),
    "no grid": (
        "This privatizer does not state that its messages lie on a grid (`grid` of its events)."
        " The last bits of floating-point numbers can reveal what the noise should hide."
        f" {NO_GUARANTEE}"
    ),
    "overheard": (
        "The messages of malicious clients may depend on those of honest clients. One client"
        " can then change the sum by more than its own message. The noise is not calibrated for"
        f" that. {NO_GUARANTEE} (An attack of your own that uses no honest message declares"
        " overhears = False.)"
    ),
    "unbounded": (
        "Malicious clients may send numbers so large that all other messages, and the noise,"
        f" are lost in the rounding of the sum. {NO_GUARANTEE} (SecureSum() adds noise shares"
        " exactly. A server that adds the noise itself clips the messages, if it receives each"
        " one.)"
    ),
}
PLAIN_MESSAGES = (
    "Clients send their updates unprotected. An update can reveal which documents were clicked."
)
PLAIN_SUM = (
    "The server sees only sums. Nothing limits what the sums, and the models computed from them,"
    " reveal about one client."
)


def epsilon_text(epsilon: float) -> str:
    """An epsilon as text, rounded up, so that a guarantee never appears better than it is."""
    if math.isinf(epsilon):
        return "no limit"
    size = math.floor(math.log10(epsilon)) if epsilon > 0.0 else 0
    digits = 1 - size if size < -2 or size >= 9 else 2 if epsilon < 100.0 else 0
    up = math.ceil(epsilon * 10.0**digits * (1.0 - 1e-9)) / 10.0**digits
    return f"{up:.1e}" if size >= 9 else f"{up:,.{digits}f}"


def remarks(account: Account) -> tuple[str, ...]:
    """Why the guarantees differ from the published one, and what they assume."""
    return tuple(_remarks(account))


def _remarks(account: Account) -> Iterator[str]:
    if account.privacy is None:
        yield PLAIN_SUM if account.given.secure else PLAIN_MESSAGES
    elif not account.phases[0].made:
        yield f"This privatizer describes nothing that could be accounted for. {NO_GUARANTEE}"
    elif account.void == "alone":
        yield (
            "Malicious clients add no noise, or know the noise that they added. A round may"
            f" consist of {account.given.setting.least_arriving:,} messages, and"
            f" {_adversarial(account)} may be among them. {NO_GUARANTEE}"
        )
    elif account.void:
        yield VOID[account.void]
    else:
        if account.given.remembers:
            yield REMEMBERS
        if account.given.stores:
            yield STORES
        for event in account.phases[0].made:
            yield from _of(event, account)
        if opened := [phase for phase in account.phases if phase.given.opened]:
            yield _opened(account, opened[0].given)
        if account.given.later:
            yield _unlearned(account)
        if account.given.most > 1 and math.isfinite(account.total.epsilon):
            yield _composed(account)
        if account.total.secret:
            yield (
                "Who takes part in which round is assumed to be secret. The server must not reveal"
                " it."
            )
        if not account.given.real:
            yield SIMULATED


def _composed(account: Account) -> str:
    each = [sum(map(pure_epsilon, phase.made)) for phase in account.phases]
    added = max(
        sum(times * one for times, one in zip(take, each, strict=True) if times)
        for take in account.given.counts
    )
    rounds = "all rounds" if account.total.secret else f"a client's {account.given.most:,} rounds"
    if account.total.how == ADDED:
        composed = f"The epsilons of {rounds} are added up"
    else:
        composed = f"{rounds[0].upper()}{rounds[1:]} are composed {account.total.how}"
    text = f"Every round reveals more. {composed}"
    if account.total.delta == 0.0 or math.isinf(added):
        return f"{text}."
    return (
        f"{text}, which is tighter than adding up their epsilons ({epsilon_text(added)}, without a"
        " delta)."
    )


def _unlearned(account: Account) -> str:
    given = account.given
    more = sum(each.rounds for each in given.later)
    cohorts = {each.setting.cohort for each in given.later} - {given.setting.cohort}
    sizes = f", of {' or '.join(f'{n:,}' for n in sorted(cohorts))} clients" if cohorts else ""
    text = (
        f"Unlearning makes up to {count(more, 'round')} after the {given.rounds:,} of"
        f" training{sizes}. They are counted: epsilon is of training and unlearning together."
        " Forgetting refunds nothing: what a client has spent stays spent, also if it left."
    )
    by_server = any(event.seen == "model" for event in account.phases[0].made)
    if by_server and given.setting.cohort < given.clients - 1:
        text += " That nobody knows who takes part is not counted in runs with unlearning."
    first, *later = (
        bound(tuple((event, 1) for event in phase.made), account.delta).epsilon
        for phase in account.phases
    )
    if max(later) <= first * (1.0 + 1e-3) or math.isinf(first):
        return text
    return (
        f"{text} A round of unlearning may have epsilon {epsilon_text(max(later))}, one of"
        f" training {epsilon_text(first)}."
    )


def _opened(account: Account, given: Conditions) -> str:
    when = "" if given is account.given else " in rounds of unlearning"
    text = (
        f"{count(given.missing, 'malicious or colluding client')} could reveal single"
        f" messages to the server{when}. The secure sum withstands {given.withstands:,}. Against"
        " the server, only the noise of each single message counts."
    )
    by_message = all(event.seen == "message" for event in account.phases[0].made)
    if math.isinf(account.round.epsilon) or by_message:
        return text
    return (
        f"{text} If none of them colludes with the server, epsilon against the server is"
        f" {epsilon_text(account.round.epsilon)} a round."
    )


def _of(event: Event, account: Account) -> Iterator[str]:
    n = account.given.setting.cohort
    if isinstance(event, RandomizedResponse):
        yield from _answers(event, account.rewards)
    if isinstance(event, GammaNoise) and event.d > 1:
        yield _norms(event)
    if isinstance(event, GaussianNoise):
        yield (
            f"Replacing one client's data changes an update by up to {event.l2:.3g}, twice the"
            " clip. A paper that adds or removes a client instead counts half of that."
        )
    counted_on = account.phases[0].counted_on
    if event.seen == "sum" and counted_on < n:
        yield _dropped(event, account)
    if event.seen == "sum" and account.given.secure and counted_on == n:
        yield (
            f"The noise shares of all {n:,} messages are counted. Set dropout if messages can be"
            " lost: fewer messages carry less noise."
        )
    if event.seen == "sum" and n > 1 and not account.given.opened:
        yield _summed(account) if account.given.secure else _single(event, n, counted_on)
    if event.seen == "model":
        gets = "the sum" if account.given.secure else "every update"
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


def _dropped(event: Event, account: Account) -> str:
    k, n = account.phases[0].counted_on, account.given.setting.cohort
    if isinstance(event, GammaNoise):
        full: Event = replace(event, shape=1.0)
    elif not isinstance(event, GaussianNoise):
        raise Mistake(
            f"the ledger cannot account for {type(event).__name__} in a sum from which messages"
            " are lost"
        )
    else:
        full = replace(event, sd=event.sd * math.sqrt(n / k))
    was, now = (bound(((each, 1),), account.delta).epsilon for each in (full, event))
    why = "The others may be lost, or their clients may reveal them."
    if account.given.malicious:
        why = f"{_adversarial(account)} may add no share, or reveal theirs."
    left = f"Only {k:,} of {n:,} shares of the noise are counted. {why}"
    if math.isinf(now):
        return f"{left} With half of the shares or fewer the ledger has no finite bound."
    was_text, now_text = epsilon_text(was), epsilon_text(now)
    return f"{left} So epsilon is at most {now_text} a round, instead of {was_text}."


def _adversarial(account: Account) -> str:
    """The malicious and colluding clients of a round, counted."""
    malicious = count(account.given.malicious, "malicious client")
    if not account.given.colluding:
        return malicious
    return f"{malicious} and {count(account.given.colluding, 'colluding client')}"


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


def _summed(account: Account) -> str:
    n, simulated = account.given.setting.cohort, " The option --colluding counts such clients."
    return (
        "The server sees only the sum, if it follows the protocol. A client that colludes with the"
        f" server reveals its share of the noise, 1/{n:,} of the whole, as if it had dropped out."
        f"{' No such client is counted.' if account.given.real else simulated}"
    )


def block(
    mechanism: str,
    nominal: str,
    delta: float,
    views: tuple[AdversaryGuarantees, ...],
    notes: tuple[str, ...],
) -> list[str]:
    """The lines for a terminal of 100 columns."""
    if mechanism == "none":
        text = f"none. {' '.join(notes)} {NO_GUARANTEE}"
        return _labelled("privacy", text)
    lines = [*_labelled("privacy", mechanism), *_labelled("published as", nominal)]
    units = [each.title for each in views[0].guarantees]
    rows = [[_cell(each.bound) for each in view.guarantees] for view in views]
    widths = [max(map(len, column)) for column in zip(units, *rows, strict=True)]
    names = max(map(len, TITLES.values()))
    heads = "  ".join(unit.rjust(width) for unit, width in zip(units, widths, strict=True))
    lines.append(f"{'epsilon, against':<{names + 2}}  {heads}  requires trust in")
    for view, row in zip(views, rows, strict=True):
        shown = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append(f"  {TITLES[view.who]:<{names}}  {shown}  {view.trusted or '-'}")
    starred = any("*" in cell for row in rows for cell in row)
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
