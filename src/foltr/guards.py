"""Checks of what components return, so that a faulty one is named before it spoils a run.

NumPy broadcasts a wrong shape silently, and a privacy guarantee is void if a learner sends other
numbers than the ledger counted."""

from __future__ import annotations

import numpy as np

from foltr.core import (
    Answers,
    Array,
    Channel,
    Cohort,
    Learner,
    Memory,
    Privatizer,
    SendReward,
    Update,
    User,
)
from foltr.errors import Mistake, require, shown
from foltr.seeds import Stream

LARGEST = float(np.finfo(np.float32).max)  # number that a device can hold


def check_vector(component: object, given: Array, like: Array) -> None:
    """Real numbers in the shape of `like`."""
    if isinstance(given, np.ndarray) and given.shape == like.shape and given.dtype.kind == "f":
        return
    name = type(component).__name__
    raise Mistake(f"{name} gave {_kind(given)}, not {like.shape} real numbers")


def check_memory(component: object, memory: Memory) -> None:
    """A tuple of arrays: that is what a checkpoint can store."""
    if type(memory) is not tuple or not all(isinstance(part, np.ndarray) for part in memory):
        raise Mistake(f"{type(component).__name__} remembers {memory!r}, not a tuple of arrays")


def check_on_device(params: Array, t: int, rule: object, direction: Array, updates: Array) -> None:
    """Parameters that a device can hold as float32. Where they are not, a rule that made a
    direction that is not finite from finite updates is named."""
    if not np.vdot(params, params) <= LARGEST**2 and not np.abs(params).max() <= LARGEST:  # or NaN
        if np.isfinite(updates).all() and not np.isfinite(direction).all():
            made = f"{type(rule).__name__} gave a direction that is not finite"
            raise Mistake(f"round {t}: {made}, from finite updates")
        raise FloatingPointError(f"round {t}: the server's parameters are not finite on a device")


def pair(component: object, made: tuple[Array, Memory], what: str) -> tuple[Array, Memory]:
    """What a rule or an optimizer returns: two values."""
    if isinstance(made, (tuple, list)) and len(made) == 2:  # faster than a union of types
        return made
    name = type(component).__name__
    raise Mistake(f"{name}.__call__ gave {_kind(made)}, not ({what}, memory)")


def learned(learner: Learner, made: tuple[Array, float, Array]) -> tuple[Array, float, Array]:
    """What `learn` returns: three values."""
    if not isinstance(made, tuple | list) or len(made) != 3:
        name = type(learner).__name__
        raise Mistake(f"{name}.learn gave {_kind(made)}, not (payload, weight, memory)")
    return made


def _kind(value: object) -> str:
    """What a component returned, in a few words."""
    if value is None:
        return "nothing (is `return` missing?)"
    if isinstance(value, np.ndarray):
        return f"{value.shape} of kind {value.dtype.kind!r}"
    return f"{len(value)} values" if isinstance(value, tuple | list) else shown(value)


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
        return sent
    kind = sent.dtype if isinstance(sent, np.ndarray) else type(sent).__name__
    wanted = f"not {payload.shape} of {payload.dtype}"
    raise Mistake(f"{type(privacy).__name__}.on_client gave {np.shape(sent)} of {kind}, {wanted}")


def check_update(
    learner: Learner, update: Update, kept: Array, before: Array, params: Array
) -> None:
    """What one client sends, and what its device keeps for the next round."""
    name, payload = type(learner).__name__, update.payload
    flat = f"a payload is one flat vector, and {name}.learn gave shape {np.shape(payload)}"
    require(np.ndim(payload) == 1, flat)
    if learner.reward_levels == 0:  # it sends updates of the parameters
        long = f"{name}.learn gave a payload of {len(payload)} numbers"
        require(
            len(payload) == len(params), f"{long}, and the ranker has {len(params)} parameters"
        )
    memory = f"the learner got memory {before.shape} and returned {np.shape(kept)}"
    require(np.shape(kept) == before.shape, memory)
    weight = f"a weight must be finite and > 0, and {name}.learn gave {update.weight}"
    require(0.0 < update.weight < np.inf, weight)
    if not np.isfinite(payload).all():
        raise FloatingPointError(f"the update that {name}.learn gave is not finite")


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
    one = got.updates.shape == (1, p) and np.shape(got.weights) == (1,)
    require(one, f"{name}.carry gave {got.updates.shape}, not one row, the weighted mean")
    require(bool(got.weights[0] > 0.0), f"{name}.carry gave a whole weight of {got.weights[0]}")


def check_crafted(attack: object, crafted: Array, count: int, p: int) -> None:
    """What malicious clients send: a row each."""
    if crafted.shape != (count, p) or crafted.dtype.kind != "f":
        given = _kind(crafted if crafted.ndim else crafted.item())
        rows = f"{count} rows of {p} real numbers"
        name = type(attack).__name__
        raise Mistake(f"{name}.craft gave {given} for {count} malicious clients, not {rows}")


def check_finite_messages(sender: object, updates: Array, t: int) -> None:
    if not np.isfinite(np.vdot(updates, updates)) and not np.isfinite(updates).all():
        name = type(sender).__name__
        given = f"look at what {name}.craft gave as numbers of four bytes"
        raise Mistake(f"round {t}: {name} sends numbers that are not finite: {given}")
