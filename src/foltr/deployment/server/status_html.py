"""The sections of the status page as HTML, from the data of a board. They need no script. All text
is escaped, because names and reasons come from nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from foltr.core.system.tables import NONE, count

Seen = Mapping[str, Any]  # Board.seen()
ROWS = 50  # rounds in the table; the charts show all rounds of the board
NODES = 200  # nodes in the table
PACE = 20  # last rounds from which the remaining time is estimated
DOT = " · "
ORDER = ("refused", "away", "connected", "revoked")  # problems first
MEANINGS = {
    "late": "no answer before the deadline",
    "failed": "the node's code failed, or Flower could not deliver the message",
    "malformed": "an ask or an answer could not be parsed",
    "message": "an update was not one that a client of this federation can send",
    "withheld": "too few clients finished a secure sum",
    "huge": "a secure sum was too large: a client sent a huge number",
    "sum": "a client's part of a secure sum was refused",
    "hello": "the node was restarted, or its devices speak another version: it gets a HELLO",
    "agreement": "the node's agreement differs from the server's",
    "clients": "the node has other clients than the roster says",
    "channel": "the node's agreement has another channel",
    "features": "the model's features are not the node's features",
    "n": "a round had another number of clients than agreed",
    "model": "the model was not the one that the ask names",
    "released": "a secure sum of this round was released already",
    "terms": "the terms of a secure sum protect less than agreed",
    "disk": "the node cannot read or write its records",
    "budget": "the clients have answered in all agreed rounds",
    "round": "the round is over",
    "norms": "a client stored no norm in that round",
    "how": "the ask wants clients to learn in a way that was not agreed",
    "size": "the updates are larger than a message can be",
    "forget": "the node asks to be forgotten",
    "unsent": "Flower did not accept the message",
    "weight": "a secure sum has weights that no clients can have",
    "session": "the connection to the SuperLink was lost repeatedly",
    "refused": "the node gave a reason that this version does not know",
    "kind": "the node does not know this kind of ask",
    "other": "kinds of failures beyond those that are counted by name",
}


def sections(seen: Seen) -> dict[str, str]:
    """The sections of the page, by name."""
    return {
        "head": _head(seen),
        "glance": f"<dl class=stats>{''.join(_tiles(seen))}</dl>",
        "rounds": _rounds(seen),
        "nodes": _nodes(seen["nodes"]),
        "failures": _failures(seen["failures"]),
        "ledger": _ledger(seen),
        "notes": _notes(seen["notes"]),
    }


def line(seen: Seen) -> tuple[str, str]:
    """The state of the indicator ("live" or "over"), and the line of plain text beside it."""
    made, rounds = seen["round"], seen["rounds"]
    if made >= rounds:
        return "over", f"All {count(rounds, 'round')} are done"
    parts = [f"{made:,} of {count(rounds, 'round')} done"]
    if seen["nodes"]:
        parts.append(f"{_there(seen['nodes'])} nodes connected")
    left = _left(seen)
    ended = f"the last round ended {_span(seen['waiting'])} ago"
    parts.append(ended if made else "no round yet")
    if left is not None:
        parts.append(f"about {_span(left)} left")
    return "live", DOT.join(parts)


# ---- key numbers


def _head(seen: Seen) -> str:
    asked = f"{count(seen['asked'], 'client')} asked per round"
    facts = f"{asked}{DOT}the server has run for {_span(seen['seconds'])}"
    title = f"<h1>Federation <span class=id>{escape(seen['title'])}</span></h1>"
    return f"{title}<p class=sub>{escape(facts)}</p>"


def _tiles(seen: Seen) -> Iterable[str]:
    history, totals = seen["history"], seen["totals"]
    yield _tile("rounds", f"{seen['round']:,} of {seen['rounds']:,}", _remaining(seen))
    states = _states(seen["nodes"])
    others = DOT.join(f"{states[s]:,} {s}" for s in ORDER if s != "connected" and states[s])
    all_there = "all are connected" if seen["nodes"] else "none is known yet"
    yield _tile("nodes connected", _there(seen["nodes"]), others or all_there)
    if not history:
        yield _tile("clients that answered", NONE, "no round yet")
        yield _tile("time per round", NONE, "no round yet")
    else:
        last, mean = history[-1], sum(each["answered"] for each in history) / len(history)
        of = f"{last['answered']:,} of {last['asked']:,}"
        yield _tile("clients that answered", of, f"in the last round; {mean:,.1f} on average")
        of_last = f"{_span(last['seconds'])} in the last round"
        yield _tile("time per round", _span(_pace(history)), f"on average; {of_last}")
    yield _tile("held-out nDCG@10", *_quality(seen))
    failures = seen["failures"]
    kinds = f"of {count(len(failures), 'kind')}" if failures else "none so far"
    yield _tile("failures", f"{sum(failures.values()):,}", kinds)
    sent, got = totals.get("sent", 0), totals.get("got", 0)
    both = f"{_bytes(sent)} to nodes, {_bytes(got)} from them"
    yield _tile("traffic", _bytes(sent + got), both)
    yield _tile("epsilon of a client", *_epsilon(seen))


def _tile(name: str, value: str, more: str) -> str:
    return (
        f"<div><dt>{escape(name)}</dt>"
        f"<dd><b>{escape(value)}</b><span>{escape(more)}</span></dd></div>"
    )


def _remaining(seen: Seen) -> str:
    if seen["round"] >= seen["rounds"]:
        return "all are done"
    left = _left(seen)
    return "no round yet" if left is None else f"about {_span(left)} left"


def _quality(seen: Seen) -> tuple[str, str]:
    """The last value; the best value and the number of models that were not adopted."""
    found = [each for each in seen["history"] if _number(each.get("ndcg")) is not None]
    if not found:
        return NONE, "no round yet" if not seen["history"] else "not measured"
    best, refused = _number(found[-1].get("best")), seen["totals"].get("not_adopted", 0)
    parts = [] if best is None else [f"best {best:.4f}"]
    parts.append(f"{count(refused, 'model')} not adopted" if refused else "every model adopted")
    return f"{found[-1]['ndcg']:.4f}", "; ".join(parts)


def _epsilon(seen: Seen) -> tuple[str, str]:
    """The epsilon against the server, which sees the most; then against other adversaries."""
    if not seen["epsilon"]:
        return NONE, "no privacy mechanism" if seen["ledger"] else ""
    (first, value), *rest = seen["epsilon"].items()
    if all(other == value for _, other in rest):
        return value, f"against {' and '.join(seen['epsilon'])}"
    others = "".join(f"; against {who} {other}" for who, other in rest)
    return value, f"against {first}{others}"


def _there(nodes: Mapping[str, str]) -> str:
    """The number of connected nodes, and of those that may connect."""
    states = _states(nodes)
    return f"{states['connected']:,} of {len(nodes) - states['revoked']:,}"


def _states(nodes: Mapping[str, str]) -> Counter[str]:
    return Counter(map(_kind, nodes.values()))


def _kind(state: str) -> str:
    """ "refused: why" -> "refused" """
    first = state.partition(":")[0]
    return first if first in ORDER else "away"


def _pace(history: Sequence[Seen]) -> float:
    recent = history[-PACE:]
    return float(sum(each["seconds"] for each in recent) / len(recent))


def _left(seen: Seen) -> float | None:
    """Estimated seconds for the remaining rounds, from the last ones."""
    history = seen["history"]
    return _pace(history) * (seen["rounds"] - seen["round"]) if history else None


# ---- tables


def _rounds(seen: Seen) -> str:
    history = seen["history"]
    if not history:
        return _quiet("No round yet. Each round appears here when it is done.")
    judged = any("ndcg" in each for each in history)
    heads = ["round", "answered", "left out", *(["held-out nDCG@10"] if judged else [])]
    heads += ["model", "to nodes", "from nodes", "time"]
    rows = [_row(each, judged) for each in reversed(history[-ROWS:])]
    table = _table("Rounds", heads, rows, "tally")
    if len(history) <= ROWS:
        return table
    return f"<p class=lead>The last {ROWS} of {count(seen['round'], 'round')}.</p>{table}"


def _row(about: Seen, judged: bool) -> list[str]:
    failures = DOT.join(f"{kind} {n:,}" for kind, n in sorted(about["failures"].items()))
    value = _number(about.get("ndcg"))
    if about.get("refused"):
        model = "<span class=warn>not adopted</span>"
    elif not about["answered"]:
        model = "unchanged: too few answered"
    else:
        model = "updated"
    sent, got = about["bytes"]
    return [
        f"{about['round'] + 1:,}",
        f"{about['answered']:,} of {about['asked']:,}",
        f"<span class=wide>{escape(failures)}</span>" if failures else NONE,
        *([NONE if value is None else f"{value:.4f}"] if judged else []),
        model,
        _bytes(sent),
        _bytes(got),
        _span(about["seconds"]),
    ]


def _nodes(nodes: Mapping[str, str]) -> str:
    if not nodes:
        return _quiet("The server has not checked yet which nodes are connected.")
    ordered = sorted(nodes.items(), key=lambda each: (ORDER.index(_kind(each[1])), each[0]))
    rows = [
        [escape(name), f"<i class=bulb data-state={_kind(state)}></i>{escape(state)}"]
        for name, state in ordered[:NODES]
    ]
    left = len(ordered) - len(rows)
    more = _quiet(f"and {count(left, 'more node')}") if left else ""
    return _table("Nodes", ["node", "state"], rows, "plain") + more


def _failures(failures: Mapping[str, int]) -> str:
    if not failures:
        return _quiet("None so far.")
    rows = [
        [escape(kind), f"{many:,}", escape(MEANINGS.get(kind, "a reason that the node gave"))]
        for kind, many in sorted(failures.items(), key=lambda each: (-each[1], each[0]))
    ]
    return _table("Failures", ["kind", "count", "meaning"], rows, "plain counts")


def _ledger(seen: Seen) -> str:
    if not seen["ledger"]:
        return _quiet("Nothing yet.")
    made = seen["round"]
    after = f"after {count(made, 'round')}" if made else "after the first round"
    about = f"The privacy budget spent {after}, for a client that answered in every round."
    text = escape("\n".join(seen["ledger"]))
    where = 'class=scroll role=region aria-label="Privacy ledger" tabindex=0'
    lead = f"<p class=lead>{about}</p>" if seen["epsilon"] else ""
    return f"{lead}<div {where}><pre class=ledger>{text}</pre></div>"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return _quiet("Nothing yet.")
    items = "".join(f"<li>{_note(each)}</li>" for each in reversed(notes))
    where = 'class="scroll log" role=region aria-label="Last notes" tabindex=0'
    return f"<div {where}><ol>{items}</ol></div>"


def _note(text: str) -> str:
    """A note begins with its date and time."""
    date, time, words = text.split(" ", 2)
    return f'<time title="{escape(date)}">{escape(time)}</time> <span>{escape(words)}</span>'


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[str]], kind: str) -> str:
    """An HTML table. The cells of `rows` are HTML; the first cell of a row is its header."""
    head = "".join(f"<th scope=col>{escape(each)}</th>" for each in heads)
    body = "".join(
        f"<tr><th scope=row>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class=scroll role=region aria-label="{escape(name)}" tabindex=0>'
        f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _quiet(text: str) -> str:
    return f"<p class=quiet>{escape(text)}</p>"


# ---- numbers


def _number(value: Any) -> float | None:
    """A finite number, or None."""
    known = isinstance(value, int | float) and abs(value) != float("inf") and value == value
    return value if known else None


def _bytes(n: int) -> str:
    """ "512 B", "12.3 kB" """
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= 0.9995 * size:
            return f"{n / size:.3g} {unit}"
    return f"{n:,} B"


def _span(seconds: float) -> str:
    """ "2.1 s", "3 min 5 s", "2 d 4 h" """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
