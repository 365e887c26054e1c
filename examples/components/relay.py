"""A relay that sums messages for the server: the channel of docs/howto/channel.md."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from foltr.core import Ask, Cohort, Withheld
from foltr.core.errors import require
from foltr.core.seeds import Stream
from foltr.core.spec import channel


@channel
@dataclass(frozen=True)
class Relay:
    """The server gets the mean of a round's messages, if at least the share `least` of the clients
    asked have answered. Devices send weight x update, rounded to multiples of `step`."""

    least: float = 0.5
    step: float = 2.0**-20

    def __post_init__(self) -> None:
        require(0.0 < self.least <= 1.0, f"least must be in (0, 1], got {self.least}")
        require(0.0 < self.step < 1.0, f"step must be in (0, 1), got {self.step}")

    def withstands(self, asked: int) -> int | None:
        return None  # the relay sees each message and could reveal it to the server

    def fewest(self, asked: int) -> int:
        return ceil(self.least * asked)

    def carry(self, cohort: Cohort, ask: Ask, rng: Stream) -> Cohort:
        fewest, whole = self.fewest(ask.n), cohort.weights.sum()
        if len(cohort) < fewest:
            raise Withheld(f"{len(cohort)} of {ask.n} clients arrived: {fewest} are needed")
        sent = np.rint(cohort.weights[:, None] * cohort.updates / self.step)  # (n, d)
        mean = sent.sum(axis=0) * self.step / whole
        return Cohort(np.array([-1]), mean[None], np.array([whole]))
