"""The agreement of a federation: all settings that decide what devices send and how it is
protected. The server and each node have it in their own settings file. A node answers only asks
that are made under its own agreement."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal

from foltr.core import Channel, Learner, Privatizer, Ranker
from foltr.core.errors import Mistake, require, shown
from foltr.core.events import Setting
from foltr.core.federation import on_devices
from foltr.core.guards import described
from foltr.core.scoring import names_hash
from foltr.core.seeds import stream
from foltr.core.spec import checked
from foltr.deployment.protocol.frames import printable
from foltr.secure_sum.terms import SumProtocol

MOST_FEATURES = 10**6


@checked
@dataclass(frozen=True)
class Agreement:
    """The settings that the server and all nodes of a federation share. Its `id` is a hash of all
    fields: it names the federation in every frame. It does not depend on any node's data.

    Fields
        ranker, learner, privacy, channel: as in an experiment
        features: the names of a document's features, in order
        asked: number of clients that are asked in a round (n); a device's share of the noise
            depends on it
        fewest: smallest number of messages that change the model; a secure sum of fewer is not
            released
        sessions: largest number of searches of a client in a round, and so the largest weight of
            its message
        rounds: largest number of rounds in which one client answers, unlearning included: its
            privacy budget
        history: every how many rounds a device stores the norm of what it sent, for unlearning;
            None for never
        separation: a client takes part at most once in this many rounds, and its update may be
            made on a model that is at most this many rounds old; None: it may take part in every
            round, with the current model
        noise: where devices draw their noise. 'system': from the operating system. 'address':
            the noise of a simulation, for tests; it gives no privacy"""

    ranker: Ranker
    learner: Learner
    features: tuple[str, ...]
    asked: int
    fewest: int
    sessions: int
    rounds: int
    privacy: Privatizer | None = None
    channel: Channel | None = None
    history: int | None = None
    noise: Literal["system", "address"] = "system"
    separation: int | None = None

    def __post_init__(self) -> None:
        many = f"features must be 1 .. {MOST_FEATURES} names, got {len(self.features)}"
        require(1 <= len(self.features) <= MOST_FEATURES, many)
        twice = "two features have one name: give each feature a name of its own"
        require(len(set(self.features)) == len(self.features), twice)
        require(1 <= self.asked <= 10**6, f"asked must be in 1 .. 10^6, got {self.asked}")
        inside = 1 <= self.fewest <= self.asked
        require(inside, f"fewest must be in 1 .. {self.asked}, got {self.fewest}")
        require(1 <= self.sessions <= 10**9, f"sessions must be in 1 .. 10^9, got {self.sessions}")
        require(1 <= self.rounds < 2**31, f"rounds must be in 1 .. 2^31 - 1, got {self.rounds}")
        require(
            self.history is None or self.history >= 1, f"history must be >= 1, got {self.history}"
        )
        apart = f"separation must be in 1 .. 2^31 - 1, got {self.separation}"
        require(self.separation is None or 1 <= self.separation < 2**31, apart)
        if self.channel is not None:
            least, name = self.channel.fewest(self.asked), type(self.channel).__name__
            low = f"{name} releases no sum of fewer than {least} of {self.asked} messages"
            require(self.fewest >= least, f"{low}: fewest must be >= {least}, got {self.fewest}")
            carried = f"{name} runs in simulations only: use SecureSum(), or leave the channel out"
            require(self.protocol is not None, carried)
            rewards = f"{type(self.learner).__name__} sends rewards, and their sum is no update"
            require(self.learner.reward_levels == 0, f"{rewards}: leave the channel out")
        self.device_learner  # noqa: B018  # raises if the learner cannot keep the privatizer's ball

    @cached_property
    def device_learner(self) -> Learner:
        return on_devices(self.learner, self.privacy)

    def check_weight(self, weight: float, sessions: int = 0) -> None:
        """Raise a Mistake for a weight that no message of this federation can have. `sessions`:
        searches of a client in a round of unlearning; 0 in a round of training."""
        scale = min(1.0, sessions / self.learner.sessions) if sessions else 1.0
        most = max(1, round(self.sessions * scale))  # as in `runs.unlearn.with_sessions`
        equal = self.privacy is not None and self.privacy.needs_equal_weights
        fits = weight == most if equal else 0.0 < weight <= most
        wanted = f"{most}" if equal else f"in (0, {most}]"
        require(fits, f"a weight must be {wanted}, got {weight}")

    @cached_property
    def may_rescale(self) -> bool:
        """Whether rounds of unlearning, in which devices rescale what they send, are as private as
        rounds of training. True if each message has its whole noise, or if the server clips every
        message and adds the noise. False for noise shares: rescaled shares do not add up."""
        if self.privacy is None:
            return True
        values, counts = self.learner.reward_levels, (self.asked, self.fewest, self.sessions)
        seen = {event.seen for event in described(self.privacy, Setting(1, *counts, values))}
        clipped = self.privacy.clips_on_arrival and self.channel is None
        return "sum" not in seen and ("model" not in seen or clipped)

    @property
    def protocol(self) -> SumProtocol | None:
        """The channel's protocol between machines; None without a channel."""
        return getattr(self.channel, "protocol", None)

    @cached_property
    def parameters(self) -> int:
        """Number of parameters of the model."""
        return len(self.ranker.init(len(self.features), stream(0)))

    @cached_property
    def id(self) -> bytes:
        return sha256(b"foltr federation 1" + self.text.encode()).digest()[:16]

    @cached_property
    def feature_hash(self) -> bytes:
        return names_hash(self.features)

    @cached_property
    def text(self) -> str:
        """All fields as JSON, in a canonical form. Fields that are None are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        there = {name: _plain(value) for name, value in values.items() if value is not None}
        return json.dumps(there, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Agreement:
        """The agreement with this `text`. Components are found by their names; nothing is run."""
        try:
            content = json.loads(text)
            made = cls(**{**content, "features": tuple(content["features"])})
        except Mistake as error:
            raise Mistake(f"this foltr cannot take part in the agreement: {error}") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise Mistake("this is not the text of an agreement") from None
        require(made.text == text, "the agreement is not in its canonical form")
        return made

    def differences(self, other: str, own_name: str, other_name: str) -> list[str]:
        """The fields in which this agreement differs from another one, given as its `text`: a line
        for each field. The names say whose agreements they are."""
        try:
            theirs = json.loads(other)
        except (ValueError, RecursionError):
            theirs = None
        if not isinstance(theirs, dict):
            return ["the other agreement cannot be read"]
        own = json.loads(self.text)
        names = sorted(own.keys() | theirs.keys())
        return [
            f"{printable(name, 40)} is {_brief(own.get(name))} {own_name},"
            f" {_brief(theirs.get(name))} {other_name}"
            for name in names
            if own.get(name) != theirs.get(name)
        ]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, int | str) else repr(value)


def _brief(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} of them"
    return "none" if value is None else printable(shown(value), 200)
