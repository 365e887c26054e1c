"""The plain engine: one client after another by definition, every shape and number checked. Slow,
and what the compiled engine is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from foltr.core import Answers, Array, Ask, Cohort, Learner, Observed, Privatizer, Ranker
from foltr.core.errors import Mistake
from foltr.core.federation import Client
from foltr.core.guards import check_sessions
from foltr.core.seeds import Stream, stream
from foltr.core.world.population import Population, SimulatedUser, nobody


@dataclass
class Debug:
    """All clients in this process, one after the other."""

    learner: Learner
    ranker: Ranker
    population: Population
    seed: int
    memory: Array  # (clients, numbers) what each device keeps between rounds
    privacy: Privatizer | None = None
    notes: tuple[str, ...] = ()
    # (t, clients) -> (n,) whose users click by the population's click model of malicious clients
    malicious: Callable[[int, Array], Array] = nobody
    # client -> the stream of its noise; None for streams by address, which kernels draw from. Real
    # devices draw from the operating system (`seeds.SystemStream`)
    noise: Callable[[int], Stream] | None = None

    def collect(self, ask: Ask, clients: Array) -> Answers:
        ask = replace(ask, params=ask.params.view())
        ask.params.flags.writeable = False  # a client that changed them would change them for all
        asked, clients = clients, self.population.searching(clients)
        updates, ndcg, max_rr = [], np.empty(len(clients)), np.empty(len(clients))
        malicious = self.malicious(ask.t, clients)
        for i, id in enumerate(map(int, clients)):
            client, user = self._client(id), self._user(id, ask.t, bool(malicious[i]))
            where = f"client {id}, round {ask.t}"
            try:
                update, kept = client.step(ask, self.memory[id], user)
                check_sessions(self.learner, user.made, user)
            except FloatingPointError as error:
                raise FloatingPointError(f"{where}: {error}") from error
            except Mistake as error:
                raise Mistake(f"{where}: {error}") from error
            except Exception as error:
                error.add_note(where)
                raise
            self.memory[id] = kept
            updates.append(update)
            ndcg[i], max_rr[i] = user.ndcg / max(user.made, 1), user.max_rr / max(user.made, 1)
        arrived = Cohort.stack(updates) if updates else Cohort.empty(len(ask.params))
        return Answers(asked, arrived, Observed(ndcg, max_rr))

    def _client(self, id: int) -> Client:
        noise = stream(self.seed, "privacy", id) if self.noise is None else self.noise(id)
        ranking = stream(self.seed, "ranking", id)
        return Client(id, self.learner, self.ranker, self.privacy, ranking, noise)

    def _user(self, id: int, t: int, malicious: bool) -> SimulatedUser:
        own, users = stream(self.seed, "ranking", id, t), stream(self.seed, "user", id, t)
        return SimulatedUser(self.population, id, self.learner.user_draws(users, own), malicious)
