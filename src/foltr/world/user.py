"""The simulated user. Labels turn into clicks only here and in its compiled twin
(`kernels/interaction.py`)."""

from __future__ import annotations

import numpy as np

from foltr.core import Array, Show
from foltr.errors import require
from foltr.guards import check_list
from foltr.metrics import DEPTH, dcg, max_rr
from foltr.seeds import Stream
from foltr.world.population import Population


class SimulatedUser:
    """The user of one client in one round; it also sums the measures for the recorder.

    Session s draws from the stream at address s: first the query, then the click model, then a
    click and a stop for each rank."""

    def __init__(
        self, population: Population, client: int, rng: Stream, malicious: bool = False
    ) -> None:
        self.population, self.client, self.rng = population, client, rng
        self.malicious = malicious and population.malicious_model is not None
        self.sessions = int(population.sessions[client])
        self.made = 0
        self.ndcg = self.max_rr = 0.0  # sums over the sessions so far

    def session(self, show: Show) -> tuple[Array, Array, Array]:
        p, c, draws = self.population, self.client, self.rng.at(self.made)
        block = p.first[c] + draws.integer(int(p.last[c] - p.first[c]))
        drawn = p.models[c, draws.integer(p.models.shape[1])]
        model = p.click_models[
            p.malicious_model if self.malicious and p.malicious_model is not None else drawn
        ]
        held = p.rows[p.starts[block] : p.stops[block]]
        # a view of padded rows: other strides would round differently
        docs = p.data.storage[held][:, : p.data.width]
        ranking = show(docs)
        check_list(show, ranking, len(docs))
        shown = p.data.labels[p.labelling[block], held][ranking]
        clicks = np.asarray(model.clicks(shown, p.data.grades, draws), bool)
        given = f"{type(model).__name__}.clicks gave {clicks.shape} for a list of {shown.shape}"
        require(clicks.shape == shown.shape, given)
        self._tally(shown, clicks, float(p.ideals[block]))
        return docs, ranking, clicks

    def _tally(self, shown: Array, clicks: Array, ideal: float) -> None:
        self.made += 1
        if ideal > 0.0:
            self.ndcg += dcg(shown[:DEPTH]) / ideal
        self.max_rr += max_rr(clicks)
