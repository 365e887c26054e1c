"""What a mechanism does in one round, as the ledger reads it: noise, and how much one client can
move what it hides.

Adjacency is replacement throughout: one client's data (for a randomised reward: one interaction)
becomes any other. Participation is never hidden.

Two fields of every noise say how far a computer's numbers are from real ones. `grid` is the step
of the grid on which all that is released lies, whatever the data; without one the last bits of
floating-point numbers can tell what noise should hide, and nothing is promised. `off` is by how
much the logarithm of the probability of a whole release may differ from that of the noise
described, for one set of data and another together: it is added to epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from foltr.errors import require

Seen = Literal[
    "message", "sum", "model"
]  # what already carries the whole noise: each client's message, the sum of a
# round's messages (but no message alone), or only what the server makes of it


@dataclass(frozen=True)
class Setting:
    """What a mechanism needs to know of the experiment to describe itself."""

    d: int  # parameters
    cohort: int  # clients asked in a round, n
    arriving: int  # of those, the fewest whose messages may make a released round
    sessions: int  # searches of a client in a round
    values: int  # that a reward can take; 0 where none is sent
    rounding: float = 0.0  # the steps to which a channel rounds the numbers of an update


@dataclass(frozen=True)
class Conditions:
    """What a promise depends on, besides the privatizer."""

    setting: Setting
    rounds: int
    times: int  # rounds in which the busiest client takes part
    clients: int  # of whom the cohort of a round is drawn
    withstands: int | None = (
        None  # so many who collude with the server: a secure channel; None: it gets every message
    )
    seed_is_shared: bool = False  # the server is sent the seed that the user's luck is drawn from
    remembers: bool = False  # what a round leaves on a device shapes its later messages
    separate: bool = True  # no search of a round shapes another one's reward
    colluding: int = 0  # clients of a round who tell the adversary their shares of the noise
    malicious: int = 0  # others of a round, who may add none
    overheard: bool = False  # malicious clients make their messages of what honest clients send
    unbounded: bool = False  # malicious clients send what they like

    def __post_init__(self) -> None:
        cohort, arriving = self.setting.cohort, self.setting.arriving
        require(1 <= arriving <= cohort, f"{arriving} of {cohort} clients cannot arrive")
        require(self.colluding >= 0, f"colluding must be >= 0, got {self.colluding}")
        rounds = f"a client cannot take part in {self.times} of {self.rounds} rounds"
        require(1 <= self.times <= self.rounds, rounds)
        require(
            cohort <= self.clients,
            f"a round of {cohort} cannot be drawn from {self.clients} clients",
        )

    @property
    def secure(self) -> bool:
        """Whether the server sees only sums."""
        return self.withstands is not None

    @property
    def missing(self) -> int:
        """Clients of a round whose noise cannot be counted on."""
        return self.colluding + self.malicious

    @property
    def opened(self) -> bool:
        """Whether so many could reveal single messages together with the server."""
        return self.withstands is not None and self.missing > self.withstands


@dataclass(frozen=True)
class RandomizedResponse:
    """One of `values` answers, the true one with probability `p`, else one of the others; `times`
    in a round."""

    p: float
    values: int
    times: int
    seen: Seen = "message"

    grid, off = 1.0, 0.0  # answers are whole numbers


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of `scale` on each of `d` coordinates, hiding a change of at most `l1` in
    all."""

    scale: float
    l1: float
    d: int
    seen: Seen
    grid: float | None = None
    off: float = 0.0


@dataclass(frozen=True)
class GammaNoise:
    """The difference of two Gamma(shape, scale) variables on each of `d` coordinates, hiding a
    change whose Euclidean norm is at most `l2`. Shape 1 is Laplace noise; a smaller one is what is
    left when shares are missing."""

    shape: float
    scale: float
    l2: float
    d: int
    seen: Seen
    grid: float | None = None
    off: float = 0.0


@dataclass(frozen=True)
class GaussianNoise:
    """Normal noise of standard deviation `sd` on each coordinate, hiding a change whose norm is at
    most `l2`."""

    sd: float
    l2: float
    seen: Seen
    grid: float | None = None
    off: float = 0.0


Event = RandomizedResponse | LaplaceNoise | GammaNoise | GaussianNoise
