"""Checks of what components return, so that a faulty one is named before it spoils a run.

NumPy broadcasts a wrong shape silently, and a privacy guarantee is void if a learner sends other
numbers than the ledger counted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from foltr.core import (
    Answers,
    Array,
    Channel,
    Cohort,
    Learner,
    Memory,
    Privatizer,
    Ranker,
    SendReward,
    Update,
    User,
)
from foltr.core.advice import MODERATE, kind, not_finite, ours, unlike
from foltr.core.errors import Mistake, require, shown
from foltr.core.events import (
    Event,
    GammaNoise,
    GaussianNoise,
    LaplaceNoise,
    RandomizedResponse,
    Setting,
)
from foltr.core.seeds import Stream

if TYPE_CHECKING:
    from foltr.core.federation import Server

LARGEST = float(np.finfo(np.float32).max)  # number that a device can hold


def check_vector(component: object, given: Array, like: Array) -> None:
    """Real numbers (float64; float32 is used as it is) in the shape of `like`."""
    if isinstance(given, np.ndarray) and given.shape == like.shape and given.dtype.char in "df":
        return
    raise Mistake(f"{type(component).__name__} gave {unlike(given, like.shape, 'float64')}")


def check_memory(component: object, memory: Memory) -> None:
    """A tuple of arrays: that is what a checkpoint can store."""
    if type(memory) is not tuple or not all(isinstance(part, np.ndarray) for part in memory):
        raise Mistake(f"{type(component).__name__} remembers {memory!r}, not a tuple of arrays")


def check_on_device(
    server: Server, t: int, before: Array, params: Array, direction: Array, cohort: Cohort
) -> None:
    """Parameters that a device can hold as float32. Where they are not, the component is named
    that made numbers that are not finite of finite ones."""
    if float(np.vdot(params, params)) <= LARGEST**2 or np.abs(params).max() <= LARGEST:
        return  # not where there is a NaN
    updates = cohort.updates
    lost = f"round {t}: the server's parameters are not finite on a device"
    rule, optimizer = type(server.aggregator).__name__, type(server.optimizer).__name__
    if not np.isfinite(updates).all():
        raise FloatingPointError(f"{lost}: the updates are not finite")
    if not np.isfinite(direction).all():
        raise not_finite(f"{rule} gave a direction of numbers", direction, updates=updates)
    far, seen = float(np.abs(direction).max()), float(np.abs(updates).max())
    if far > LARGEST >= MODERATE * max(seen, 1.0):
        beyond = "which no device can hold (float32)"
        raise Mistake(
            f"{rule} gave numbers of up to {far:.3g}, {beyond}, from updates of up to {seen:.3g}"
        )
    if np.isnan(params).any():
        made = f"{optimizer} gave parameters"
        raise not_finite(made, params, parameters=before, directions=direction)
    stepped = (
        f"{optimizer} made a step from {np.abs(before).max():.3g} to {np.abs(params).max():.3g}"
    )
    raise FloatingPointError(f"{lost} ({stepped}, along numbers of up to {far:.3g})")


def pair(component: object, made: tuple[Array, Memory], what: str) -> tuple[Array, Memory]:
    """What a rule or an optimizer returns: two values."""
    if isinstance(made, (tuple, list)) and len(made) == 2:  # faster than a union of types
        return made
    name = type(component).__name__
    raise Mistake(f"{name}.__call__ gave {kind(made)}, not ({what}, memory)")


def learned(learner: Learner, made: tuple[Array, float, Array]) -> tuple[Array, float, Array]:
    """What `learn` returns: three values."""
    if not isinstance(made, tuple | list) or len(made) != 3:
        name = type(learner).__name__
        raise Mistake(f"{name}.learn gave {kind(made)}, not (payload, weight, memory)")
    return made


def check_notes(component: object, notes: tuple[str, ...]) -> tuple[str, ...]:
    """What a component's `fits` returns: sentences."""
    sentences = isinstance(notes, tuple) and all(isinstance(note, str) for note in notes)
    name = type(component).__name__
    require(sentences, f"{name}.fits gave {notes!r}, not a tuple of sentences")
    return notes


def sending_rewards(
    learner: Learner, privacy: Privatizer | None, sessions: int, noise: Stream
) -> SendReward:
    """The function through which a learner sends every reward: it checks that there is one reward
    per session, out of as many values as the learner declared, and applies the privatizer. The
    ledger relies on this."""
    name, declared, sent = type(learner).__name__, learner.reward_levels, set[int]()

    def send_reward(which: int, values: int, session: int) -> int:
        require(values == declared, f"{name} sends one of {values} rewards, declared {declared}")
        require(0 <= which < values, f"{name} sends reward {which}, not in 0 .. {values - 1}")
        once = 0 <= session < sessions and session not in sent
        require(once, f"{name} sends session {session} twice, or one that was not made")
        sent.add(session)
        if privacy is None:
            return which
        other = privacy.on_reward(which, values, noise.at(session))
        changed = f"{type(privacy).__name__} sends reward {other}, not in 0 .. {values - 1}"
        require(0 <= other < values, changed)
        return other

    return send_reward


def check_as_counted(
    learner: Learner, privacy: Privatizer, payload: Array, weight: float, params: Array, user: User
) -> None:
    """What the ledger counts on: an update has as many numbers as the parameters; where the
    privatizer needs equal weights, a weight is the number of searches."""
    name = type(learner).__name__
    if learner.reward_levels == 0:
        made_for = f"the noise is made for updates of {params.shape}"
        whole = f"{name} sends {np.shape(payload)} numbers, and {made_for}"
        require(np.shape(payload) == params.shape, whole)
    sends = f"{name} sends a weight of {weight:g} for {user.sessions} searches"
    needs = f"{type(privacy).__name__} needs the number of searches as the weight"
    require(not privacy.needs_equal_weights or weight == user.sessions, f"{sends}, and {needs}")


def privatized(privacy: Privatizer, payload: Array, n: int, noise: Stream) -> Array:
    """What a client sends in a round of n clients: as many numbers, of the same kind."""
    sent = privacy.on_client(payload, n, noise)
    if (
        isinstance(sent, np.ndarray)
        and sent.shape == payload.shape
        and sent.dtype == payload.dtype
    ):
        if not np.isfinite(sent).all() and np.isfinite(payload).all():
            made = f"{type(privacy).__name__}.on_client gave numbers"
            raise not_finite(made, sent, updates=payload)
        return sent
    wanted = f"not {payload.dtype} of shape {payload.shape}"
    raise Mistake(f"{type(privacy).__name__}.on_client gave {kind(sent)}, {wanted}")


def check_noisy(privacy: Privatizer, noisy: Array, mean: Array) -> None:
    """What the server uses instead of a mean: as many numbers, finite ones."""
    check_vector(privacy, noisy, mean)
    if not np.isfinite(noisy).all():
        raise not_finite(f"{type(privacy).__name__}.on_server gave numbers", noisy, means=mean)


def check_clipped(privacy: Privatizer, clipped: Array, updates: Array) -> None:
    """Messages that the server has clipped: as many of them."""
    if isinstance(clipped, np.ndarray) and clipped.shape == updates.shape:
        return
    due = unlike(clipped, updates.shape, str(updates.dtype))
    raise Mistake(f"{type(privacy).__name__}.on_arrival gave {due}")


def check_decoded(learner: Learner, decoded: Array, n: int, d: int) -> None:
    """Directions of the parameters, one for each message."""
    made = f"{type(learner).__name__}.decode gave"
    real = isinstance(decoded, np.ndarray) and decoded.dtype.kind == "f"
    if not real or decoded.shape != (n, d):
        raise Mistake(f"{made} {unlike(decoded, (n, d), 'float32')}")
    if not np.isfinite(decoded).all():
        raise not_finite(f"{made} directions", decoded)


def check_update(
    learner: Learner, update: Update, kept: Array, before: Array, params: Array
) -> None:
    """What one client sends, and what its device keeps for the next round."""
    name, payload = type(learner).__name__, update.payload
    flat = isinstance(payload, np.ndarray) and payload.ndim == 1
    if not flat or payload.dtype.kind not in "fiu":
        due = unlike(payload, params.shape, "float32")
        raise Mistake(f"a payload is one flat vector of numbers, and {name}.learn gave {due}")
    if learner.reward_levels == 0:  # it sends updates of the parameters
        long = f"{name}.learn gave a payload of {len(payload)} numbers"
        require(
            len(payload) == len(params), f"{long}, and the ranker has {len(params)} parameters"
        )
    memory = f"the learner got memory {before.shape} and returned {np.shape(kept)}"
    require(np.shape(kept) == before.shape, memory)
    weight = f"a weight must be finite and > 0, and {name}.learn gave {shown(update.weight)}"
    number = isinstance(update.weight, float | int | np.floating | np.integer)
    require(number and 0.0 < update.weight < np.inf, weight)
    if not np.isfinite(payload).all():
        made, bad = f"the update that {name}.learn gave is not finite", np.isnan(payload).sum()
        if ours(type(learner)):
            raise FloatingPointError(made)
        raise Mistake(
            f"{made} ({bad} NaN and {np.isinf(payload).sum()} infinite of {len(payload)} numbers):"
            f" {name} computes them, or makes steps that are too large"
        )


def check_sessions(learner: Learner, made: int, user: User) -> None:
    """A learner asks its user for all searches of the round, and for no other."""
    name, wanted = type(learner).__name__, user.sessions
    asked = f"{name}.learn asked for {made} sessions, and the user makes {wanted}"
    require(made == wanted, f"{asked}: call user.session as often as user.sessions says")


def check_list(show: object, ranking: Array, documents: int) -> None:
    """What a learner shows: different documents of the query, as indices."""
    name = getattr(show, "__qualname__", "show").replace("<locals>.", "")
    if not isinstance(ranking, np.ndarray) or ranking.ndim != 1 or ranking.dtype.kind not in "iu":
        given = np.asarray(ranking)
        got = f"{given.dtype} of shape {given.shape}"
        raise Mistake(f"{name} gave {got}, not a list of documents: integers (k,)")
    places = ranking.tolist()
    inside = bool(places) and min(places) >= 0 and max(places) < documents
    if not inside or len(set(places)) != len(places):
        different = f"different documents of 0 .. {documents - 1}"
        raise Mistake(f"{name} gave the list {shown(places)}: it must be {different}")


def check_answers(answers: Answers, asked: Array) -> None:
    """What an engine gathered: of each client that answered, which was asked and answers once, a
    row, a weight and what was observed."""
    arrived, observed = answers.arrived, answers.observed
    clients, updates, weights = arrived.clients, arrived.updates, arrived.weights
    if clients is asked and len(updates) == len(weights) == len(asked):  # all of them, in order
        return
    if not all(isinstance(part, np.ndarray) for part in (clients, updates, weights)):
        raise Mistake("the engine gathered what are no arrays")
    if arrived.mean_of is not None:
        check_mean(arrived, len(asked))
        return
    n = len(clients)
    if clients.ndim != 1 or updates.ndim != 2 or len(updates) != n or weights.shape != (n,):
        shapes = f"{updates.shape} numbers and {weights.shape} weights"
        raise Mistake(f"the engine gathered {shapes} of {clients.shape} clients")
    if observed is not None and not len(observed.ndcg) == len(observed.max_rr) == n:
        seen = f"{len(observed.ndcg)} and {len(observed.max_rr)}"
        raise Mistake(f"the engine observed {seen} clients, and {n} answered")
    ids, reached = clients.tolist(), set(answers.asked.tolist())
    if others := (set(ids) - reached) | (reached - set(asked.tolist())):
        raise Mistake(f"clients {shown(sorted(others))} were not asked, and the engine has them")
    if len(set(ids)) != n:
        raise Mistake(f"a client answers twice: {shown(ids)}")
    if not (np.isfinite(weights).all() and (weights > 0.0).all()):
        raise Mistake(f"weights must be finite and > 0, got {shown(weights.tolist())}")


def check_mean(arrived: Cohort, asked: int) -> None:
    """What an engine gathered that has carried the messages itself: one row, their mean."""
    n, updates, weights = arrived.mean_of, arrived.updates, arrived.weights
    if updates.ndim != 2 or len(updates) != 1 or weights.shape != (1,):
        shapes = f"{updates.shape} numbers and {weights.shape} weights"
        raise Mistake(f"the engine carried {shapes}, not one row, the weighted mean")
    if n is None or not 1 <= n <= asked:
        raise Mistake(
            f"the engine carried the mean of {n} messages, and {asked} clients were asked"
        )
    if not (0.0 < weights[0] < np.inf and np.isfinite(updates).all()):
        raise Mistake("the engine carried a mean whose weight or numbers are not finite and > 0")


def check_enough(channel: Channel, messages: int, asked: int) -> None:
    """Refuses a mean of fewer messages than the channel may release."""
    fewest = channel.fewest(asked)
    few = f"the mean of {messages} of {asked} messages was carried"
    require(messages >= fewest, f"{few}, and {type(channel).__name__} releases {fewest} at least")


def check_carried(channel: object, got: Cohort, p: int) -> None:
    """What a channel gives: one row, the weighted mean."""
    name = type(channel).__name__
    require(isinstance(got, Cohort), f"{name}.carry gave {kind(got)}, not a Cohort")
    one = np.shape(got.updates) == (1, p) and np.shape(got.weights) == (1,)
    require(one, f"{name}.carry gave {kind(got.updates)}, not one row, the weighted mean")
    whole = got.weights[0]
    require(bool(0.0 < whole < np.inf), f"{name}.carry gave a whole weight of {whole}")
    if not np.isfinite(got.updates).all():
        raise not_finite(f"{name}.carry gave a mean of numbers", got.updates)


def crafted_rows(attack: object, crafted: object, count: int, p: int) -> Array:
    """What malicious clients send: a row each, of real numbers."""
    try:
        rows = np.asarray(crafted)
    except (ValueError, TypeError, RuntimeError):  # rows of different lengths
        rows = np.asarray(None)
    if rows.shape != (count, p) or rows.dtype.kind != "f":
        given = kind(rows) if rows.ndim else kind(crafted)
        due = f"{count} rows of {p} real numbers"
        name = type(attack).__name__
        raise Mistake(f"{name}.craft gave {given} for {count} malicious clients, not {due}")
    return rows


def check_finite_messages(attack: object, updates: Array, crafted: Array) -> None:
    """The messages of a round are finite as numbers of four bytes, crafted ones too."""
    if np.isfinite(np.vdot(updates, updates)) or np.isfinite(updates).all():
        return
    name = type(attack).__name__
    if not np.isfinite(crafted).all():
        raise not_finite(f"{name} sends numbers", crafted)
    most = f"{name}.craft gave numbers of up to {np.abs(crafted).max():.3g}"
    raise Mistake(f"{name} sends numbers that are not finite: {most}, beyond float32")


def check_initial(ranker: Ranker, params: Array, features: int) -> None:
    """The first parameters of a ranker: one flat vector of finite real numbers."""
    name = type(ranker).__name__
    if not isinstance(params, np.ndarray) or params.ndim != 1 or params.dtype.kind != "f":
        flat = (int(np.size(params)),) if isinstance(params, np.ndarray) else ("d",)
        raise Mistake(f"{name}.init gave {unlike(params, flat, 'float32')}")
    require(len(params) > 0, f"{name}.init gave no parameters for {features} features")
    if not np.isfinite(params).all():
        raise not_finite(f"{name}.init gave parameters", params)


def check_scores(ranker: Ranker, scores: Array, params: Array, docs: Array) -> None:
    """A finite real score for each document."""
    made = f"{type(ranker).__name__}.scores gave"
    real = isinstance(scores, np.ndarray) and scores.dtype.kind in "fiu"
    if not real or scores.shape != (len(docs),):
        due = unlike(scores, (len(docs),), "float32")
        raise Mistake(f"{made}, for {len(docs):,} documents, {due}")
    if not np.isfinite(scores).all():
        raise not_finite(f"{made} scores", scores, parameters=params, features=docs)


def check_gradient(ranker: Ranker, gradient: Array, params: Array, docs: Array) -> None:
    """As many finite real numbers as there are parameters."""
    made = f"{type(ranker).__name__}.pullback gave"
    real = isinstance(gradient, np.ndarray) and gradient.dtype.kind == "f"
    if not real or gradient.shape != params.shape:
        raise Mistake(f"{made} {unlike(gradient, params.shape, 'float32')}")
    if not np.isfinite(gradient).all():
        raise not_finite(f"{made} numbers", gradient, parameters=params, features=docs)


def described(privacy: Privatizer | None, setting: Setting) -> tuple[Event, ...]:
    """The events of a privatizer in one round, checked; () without a privatizer."""
    found = () if privacy is None else privacy.events(setting)
    require(
        isinstance(found, tuple),
        f"{type(privacy).__name__}.events returned {found!r}, not a tuple of events",
    )
    return tuple(known(event) for event in found)


def known(event: Event) -> Event:
    """The event itself; raises if no ledger can account for it."""
    name = type(event).__name__
    if type(event) is RandomizedResponse:
        ok = 2 <= event.values and 1.0 / event.values <= event.p <= 1.0 and event.times >= 1
    elif type(event) is LaplaceNoise:
        ok = event.scale > 0.0 and 0.0 <= event.l1 < math.inf
    elif type(event) is GammaNoise:
        ok = (
            0.0 < event.shape <= 1.0
            and event.scale > 0.0
            and 0.0 <= event.l2 < math.inf
            and event.d >= 1
        )
    elif type(event) is GaussianNoise:
        ok = event.sd > 0.0 and 0.0 <= event.l2 < math.inf
    else:
        raise Mistake(
            f"the ledger cannot account for events of type {name}: a privatizer must describe its"
            " noise by the events of foltr.core.events"
        )
    ok = ok and event.log_error >= 0.0 and (event.grid is None or event.grid > 0.0)
    require(
        ok and event.seen in ("message", "sum", "model"),
        f"a field of this event is out of range: {event}",
    )
    return event
