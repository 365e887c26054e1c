"""Descriptions of what a mechanism does in one round: its noise, and the sensitivity that it
hides.

Adjacency is replacement: the data of one client (for a randomised reward: one interaction) are
replaced by any other. Participation is not hidden.

Two fields describe the difference between computer arithmetic and real numbers. `grid` is the step
of the grid on which all released numbers lie for any data; None gives no guarantee, because the
last bits of floating-point numbers can reveal what the noise should hide. `log_error` bounds the
error of the logarithm of the probability of a whole release, over both data sets together; it is
added to epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.core.errors import require

# what carries the whole noise: each client's message, the sum of a round's messages (but no single
# message), or only the model that the server makes
Seen = Literal["message", "sum", "model"]


@dataclass(frozen=True)
class Setting:
    """The facts of an experiment that a mechanism needs to describe itself."""

    d: int  # parameters
    cohort: int  # clients asked per round, n
    least_arriving: int  # fewest of them whose messages make a released round
    sessions: int  # searches per client and round
    values: int  # values that a reward can take; 0 if no reward is sent
    rounding: float = 0.0  # the step to which a channel rounds the numbers of an update


@dataclass(frozen=True)
class Conditions:
    """The facts of an experiment that a guarantee depends on, besides the privatizer."""

    setting: Setting
    rounds: int
    times: int  # most rounds in which one client takes part
    clients: int  # clients that the cohort of a round is drawn from
    # colluding clients tolerated by a secure channel; None: server gets each message
    withstands: int | None = None
    seed_is_shared: bool = False  # messages contain the seed of the user's random draws
    remembers: bool = False  # device memory of one round changes later messages
    real: bool = False  # devices are real: their noise is the operating system's
    repeatable: bool = False  # the server can compute the noise, and subtract it
    stores: bool = False  # a stored message without its whole noise changes one of unlearning
    separate: bool = True  # no search of a round changes another one's reward
    colluding: int = 0  # clients per round that reveal their shares of noise to the adversary
    malicious: int = 0  # further clients per round, which may add no noise
    overheard: bool = False  # malicious messages may depend on honest clients' messages
    unbounded: bool = False  # malicious clients may send any numbers
    # those of each later phase, in which clients are unlearned; none of it has phases of its own
    later: tuple[Conditions, ...] = ()
    # with `later`: in how many rounds of training, and of each later phase, a client takes part;
    # of every client that no other one exceeds in all of them
    takes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        cohort, arriving = self.setting.cohort, self.setting.least_arriving
        require(1 <= arriving <= cohort, f"{arriving} of {cohort} clients cannot arrive")
        require(self.colluding >= 0, f"colluding must be >= 0, got {self.colluding}")
        rounds = f"a client cannot take part in {self.times} of {self.rounds} rounds"
        require(1 <= self.times <= self.rounds, rounds)
        require(
            cohort <= self.clients,
            f"a round of {cohort} cannot be drawn from {self.clients} clients",
        )

        whole = all(len(take) == 1 + len(self.later) for take in self.takes)
        require(whole and bool(self.takes) == bool(self.later), "`takes` has a number per phase")

    @property
    def stretches(self) -> tuple[Conditions, ...]:
        """Training, and each phase of unlearning."""
        return (self, *self.later)

    @property
    def counts(self) -> tuple[tuple[int, ...], ...]:
        """`takes`, also without phases of unlearning."""
        return self.takes or ((self.times,),)

    @property
    def most(self) -> int:
        """Most rounds in which one client takes part, those of unlearning included."""
        return max(sum(take) for take in self.counts)

    @property
    def lasting(self) -> bool:
        """Whether one round of a client changes later messages of it."""
        return self.remembers or self.stores

    @property
    def secure(self) -> bool:
        """Whether the server sees only sums."""
        return self.withstands is not None

    @property
    def missing(self) -> int:
        """Clients of a round whose noise must not be counted."""
        return self.colluding + self.malicious

    @property
    def opened(self) -> bool:
        """Whether the malicious and colluding clients are enough to reveal single messages to the
        server."""
        return self.withstands is not None and self.missing > self.withstands


@dataclass(frozen=True)
class RandomizedResponse:
    """One of `values` answers: the true one with probability `p`, else one of the others; `times`
    per round."""

    p: float
    values: int
    times: int
    seen: Seen = "message"

    grid, log_error = 1.0, 0.0  # answers are integers


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of `scale` on each of `d` coordinates, for an L1 sensitivity of `l1`."""

    scale: float
    l1: float
    d: int
    seen: Seen
    grid: float | None = None
    log_error: float = 0.0


@dataclass(frozen=True)
class GammaNoise:
    """The difference of two Gamma(shape, scale) variables on each of `d` coordinates, for an L2
    sensitivity of `l2`. Shape 1 is Laplace noise; a smaller shape remains when shares are
    missing."""

    shape: float
    scale: float
    l2: float
    d: int
    seen: Seen
    grid: float | None = None
    log_error: float = 0.0


@dataclass(frozen=True)
class GaussianNoise:
    """Normal noise of standard deviation `sd` on each coordinate, for an L2 sensitivity of
    `l2`."""

    sd: float
    l2: float
    seen: Seen
    grid: float | None = None
    log_error: float = 0.0


Event = RandomizedResponse | LaplaceNoise | GammaNoise | GaussianNoise
