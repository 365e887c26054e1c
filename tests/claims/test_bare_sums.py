"""Secure sums without noise on real data, and four searches in one message without noise: what
they hide from a server that knows every list. Heavy: `pytest -m claims -s`, with FOLTR_DATA set.
Sums of linear rankers are in test_pham_2022.py."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from foltr.core.seeds import stream
from foltr.core.world.population import SimulatedUser, iid
from foltr.experiment import Experiment
from foltr.simulation.audits.games import area
from foltr.simulation.audits.guesses import Model, minimum_norm_solution, positive
from foltr.simulation.audits.labels import ABSENT, OTHERS_NORMAL, SETS_ABSENT, infer_labels
from foltr.simulation.audits.noise import summed
from foltr.simulation.audits.searches import Search, gradients, searches
from foltr.simulation.audits.sums import Sum, member, rounding

pytestmark = pytest.mark.claims

COMMON = {
    "users": "Cascade(kind='perfect')",
    "clients": 1000,
    "rounds": 200,
    "evaluate_every": 100,
}
NOTHING = np.empty(0, np.float32)


def test_a_sum_of_a_hundred_networks_hides_nothing(with_real_data):
    """3,072 weights, 1,000 documents: the queries of MQ2008 that are trained on, since a hundred
    differ only there."""
    e = Experiment(
        data="MQ2008()",
        ranker="MLP(hidden=64)",
        learner="PDGD(sessions=4, pairs='shown')",
        **COMMON,
    )
    params = e.run(threads=2).params.astype(np.float32)
    made = searches(e, params, e.users, e.data.load("train"), 500)
    assert len(params) == 3072 and len(made) > 200
    found = infer_labels(e, params, made, (summed(100),), 1e-5, lambda *_: None)
    rows = {row.attack: {name: each.mean for name, each in row.measures.items()} for row in found}
    print("\nMLP(64), the sum of 100", *rows.items(), sep="\n  ")
    assert rows["least squares"]["AUC"] > 0.99 and rows["least squares"]["accuracy"] > 0.93
    assert rows[OTHERS_NORMAL]["AUC"] > 0.995 and rows[OTHERS_NORMAL]["accuracy"] > 0.98
    assert max(rows[control]["AUC"] for control in (ABSENT, SETS_ABSENT)) < 0.6


@dataclass
class Listed:
    """A user whose lists the server writes down, and who can be imagined to have clicked otherwise
    on the same ones."""

    sessions: int
    user: object = None
    lists: tuple = ()
    clicks: tuple = ()

    def session(self, show):
        if self.user is not None:
            seen = self.user.session(show)
            self.lists, self.clicks = (*self.lists, seen[:2]), (*self.clicks, seen[2])
            return seen
        ((docs, ranking), *self.lists), (clicks, *self.clicks) = self.lists, self.clicks
        show(docs)  # PDGD scores the documents there; what it would show now does not matter
        return docs, ranking, clicks


@dataclass(frozen=True)
class FourSearches:
    """The attack: weights move little between the searches of one message, so it is nearly a sum
    of four."""

    e: Experiment
    params: np.ndarray
    lists: tuple
    update: np.ndarray

    def sent(self, clicks):
        """Exactly what PDGD sends for these clicks on these lists."""
        user = Listed(len(clicks), lists=self.lists[: len(clicks)], clicks=clicks)
        args = (
            self.e.ranker,
            self.params,
            NOTHING,
            user,
            stream(0),
            self.e.rounds,
            lambda *_: None,
        )
        return self.e.device_learner.learn(*args)[0]

    def missed(self, clicks):
        return float(np.sqrt(np.square(self.sent(clicks) - self.update, dtype=np.float64).mean()))

    def clicks(self):
        guess, off = None, 1e-3 * float(np.sqrt(np.square(self.update).mean()))
        for _ in range(5):
            clients = [self._search(s, guess) for s in range(len(self.lists))]
            told = Sum(clients, rounding(self.params, clients) + off**2).settled(
                self.update.astype(np.float64)
            )
            guess = np.stack([each.clicked for each in told])
            off = min(self.missed(guess), off / 2)
            if off < 1e-8:
                break
        return self._flipped(guess)

    def _search(self, s, guess):
        """What search s could add, at the weights that earlier clicks led to."""
        docs, ranking = self.lists[s]
        at = self.params if guess is None or s == 0 else self.params + self.sent(guess[:s])
        shown = docs[ranking]
        scores, slopes = self.e.ranker.scores(at, docs), gradients(self.e.ranker, at, shown)
        search = Search(0, shown, ranking, scores, slopes, None, None)
        return member(
            Model(replace(self.e.device_learner, sessions=1), None, at, self.e.rounds), search, 1
        )

    def _flipped(self, guess):
        """Whatever single click brings the message nearer, until none does."""
        nearest = self.missed(guess)
        while nearest > 0.0:
            others = [guess ^ one.reshape(guess.shape) for one in np.eye(guess.size, dtype=bool)]
            off = [self.missed(each) for each in others]
            if min(off) >= nearest:
                break
            guess, nearest = others[int(np.argmin(off))], min(off)
        return guess


@pytest.mark.parametrize("fold", range(1, 6))
def test_four_searches_in_one_bare_message_are_read_click_by_click(with_real_data, fold):
    """Of 1,200 clients those whose four lists are full: 40 documents, 46 weights. A list of which
    all or none was clicked leaves no trace, so these two are counted as one."""
    e = Experiment(data=f"MQ2008(fold={fold})", learner="PDGD(sessions=4)", **COMMON)
    params = e.run(threads=2).params.astype(np.float32)
    population = iid(e.data.load("train"), e.users, 1200, 4)
    whole, aucs, accuracies = [], [], []
    for i in range(1200):
        user = Listed(4, SimulatedUser(population, i, stream(e.seed, "user", i, e.rounds)))
        luck = stream(e.seed, "ranking", i, e.rounds)
        update, *_ = e.device_learner.learn(
            e.ranker, params, NOTHING, user, luck, e.rounds, lambda *_: None
        )
        if any(len(ranking) < 10 for _, ranking in user.lists):
            continue
        true = np.stack(user.clicks).astype(bool)
        found = FourSearches(e, params, user.lists, update).clicks()
        traces = ~true.all(axis=1)
        whole.append((found == (true & traces[:, None])).all())
        columns = np.concatenate([docs[ranking] for docs, ranking in user.lists]).T.astype(
            np.float64
        )
        squares = minimum_norm_solution(columns, update.astype(np.float64)).reshape(4, 10)
        aucs += [
            area(x[c], x[~c])
            for x, c in zip(squares, true, strict=True)
            if c.any() and not c.all()
        ]
        accuracies.append((positive(squares.ravel()).clicked.reshape(4, 10) == true).mean())
    print(f"\nfold {fold}: all 40 clicks of {sum(whole)} of {len(whole)} messages")
    print(f"  by least squares AUC {np.mean(aucs):.3f}, accuracy {np.mean(accuracies):.3f}")
    assert len(whole) > 40 and all(whole)
    assert np.mean(aucs) > 0.96
