"""Is any stated epsilon beaten by an attack? 153 small experiments, and the best attack that we
know on each.

    # every experiment; exit code 1 if a guarantee is broken
    python benchmarks/guarantees.py
    python benchmarks/guarantees.py --quick        # the ten that CI plays
    # as if the ledger stated a tenth less: which games would notice?
    python benchmarks/guarantees.py --ledger 0.9

Privatizers x channels x partitions x attacks x rules x participation, as far as they are legal and
one of these differs from the plainest, or two where the noise is not each message's own; and a
list of others (learners, known weak spots). Each is played as a whole
(`guarantee_games.py`):
two inputs as far apart as the mechanism allows, many rounds with its real noise, malicious
clients, drop-outs, channel and server, a likelihood-ratio test. "at least" is a lower bound of
epsilon that holds with 99.9 % confidence; "of the guarantee" is how much of the stated epsilon
that is, at the delta where it is most (of 1e-5, .01, .1, .3)."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

from guarantee_games import play_all

from foltr.core.errors import Mistake
from foltr.core.world.dataset import Dataset
from foltr.core.world.protocols import Source
from foltr.experiment import Experiment
from foltr.privacy.guarantee import ledger_of
from foltr.simulation.audits.games import Game
from foltr.simulation.runs.setup import checked_population

FEATURES = 1  # with one number in a message games come closest to the guarantee
TIGHT = 0.9
COMMON = {"data": "Synthetic(queries=20)", "clients": 6, "rounds": 3}
LAPLACE, NORMAL = "Laplace(epsilon=1.0, clip=0.1)", "Gaussian(noise=1.0, clip=0.1)"
SHARES, SERVER = (
    "Gaussian(noise=1.0, clip=0.1, where='shares')",
    "Gaussian(noise=1.0, clip=0.1, where='server')",
)
HALF, FULL = (
    "GammaShares(epsilon=1.2, sensitivity=3.0)",
    "GammaShares(epsilon=0.6, sensitivity=3.0, clip='full')",
)

PARTS: dict[str, list[dict[str, Any]]] = {
    "channel": [{}, {"channel": "SecureSum()"}, {"channel": "SecureSum()", "dropout": 0.1}],
    "partition": [
        {},
        {"partition": "ByVolume(sessions=(2, 4))"},
        {"partition": "ByLabel(labels=2)", "clients": 3},
    ],
    "attack": [
        {},
        *(
            {"attack": attack, "malicious": 1}
            for attack in (
                "DataPoisoning()",
                "CompromisedModel()",
                "LittleIsEnough(z=1.0)",
                "Mimic()",
                "MinMax(knowledge='all')",
            )
        ),
    ],
    "participation": [{}, {"participation": 0.5, "clients": 12}],
    "rule": [{}, {"aggregator": "Median()"}],
}
ALONE: list[dict[str, Any]] = [  # what the product does not make
    {"privacy": "RandomizedReward(p=0.5)", "learner": "ES()"},
    {"privacy": "RandomizedReward(p=0.9)", "learner": "ES(objective='ctr')"},
    {
        "privacy": "RandomizedReward(p=0.5)",
        "learner": "ES()",
        "attack": "DataPoisoning()",
        "malicious": 1,
    },
    {"privacy": LAPLACE, "learner": "Personal(learner=PDGD(lr=10.0), pull=0.0)", "rounds": 20},
    {"privacy": LAPLACE, "learner": "Personal(learner=PDGD(lr=100.0))", "rounds": 20},
    {"privacy": NORMAL, "learner": "Personal(learner=PDGD(lr=10.0), pull=0.0)", "rounds": 20},
    {
        "privacy": LAPLACE,
        "learner": "FedPer(learner=PDGD(lr=10.0))",
        "ranker": "MLP(hidden=1)",
        "rounds": 20,
    },
    {
        "privacy": HALF,
        "channel": "SecureSum()",
        "clients": 50,
        "attack": "CompromisedModel()",
        "malicious": 20,
    },
    {
        "privacy": SHARES,
        "channel": "SecureSum()",
        "clients": 50,
        "attack": "CompromisedModel()",
        "malicious": 20,
    },
    {"privacy": SERVER, "clients": 50, "attack": "Mimic()", "malicious": 15},
    {"privacy": HALF, "channel": "SecureSum(masks=True)", "clients": 3, "rounds": 1},
    {
        "privacy": "Gaussian(noise=2.0, clip=0.51, where='server')",
        "learner": "PDGD(sessions=1)",
        "channel": "SecureSum(fraction_bits=0)",
    },
    {"privacy": "Gaussian(noise=0.2, clip=0.1)"},
    {"privacy": SERVER, "clients": 2, "participation": 0.5},
]
QUICK = (  # what CI plays
    LAPLACE,
    f"{NORMAL}, ByVolume(sessions=(2, 4))",
    f"{SHARES}, SecureSum()",
    f"{SHARES}, SecureSum(), CompromisedModel(), malicious=1",
    f"{SERVER}, DataPoisoning(), malicious=1",
    f"{SERVER}, Mimic(), malicious=1",
    f"{HALF}, SecureSum(), participation=0.5, clients=12",
    f"{HALF}, SecureSum(), dropout=0.1",
    "RandomizedReward(p=0.5), ES()",
    f"{LAPLACE}, Personal(learner=PDGD(lr=100.0)), rounds=20",
)


@cache
def loaded(data: Source) -> tuple[Dataset, Dataset]:
    return data.load("train"), data.load("test")


def experiments() -> Iterator[tuple[str, Experiment]]:
    """Each with a name that says what is not as usual."""
    for privacy in (LAPLACE, NORMAL, SHARES, SERVER, HALF, FULL):
        for chosen in sorted(
            itertools.product(*PARTS.values()), key=lambda parts: sum(map(bool, parts))
        ):
            if sum(map(bool, chosen)) <= (1 if privacy in (LAPLACE, NORMAL, FULL) else 2):
                fields = {name: value for part in chosen for name, value in part.items()}
                yield from _legal({"privacy": privacy, **fields})
    for fields in ALONE:
        yield from _legal(fields)


def _legal(fields: dict[str, Any]) -> Iterator[tuple[str, Experiment]]:
    try:
        e = Experiment(**{**COMMON, **fields})
        checked_population(e, *loaded(e.data))
    except Mistake:
        return
    # shown without the field name
    by_value = {"privacy", "learner", "channel", "partition", "attack", "aggregator"}
    yield (
        ", ".join(
            str(value) if name in by_value else f"{name}={value}" for name, value in fields.items()
        ),
        e,
    )


def closeness(game: Game, part: float) -> float:
    """The most of a stated epsilon that was shown, over all deltas; above 1 where the guarantee is
    broken."""
    return max(test.at_least / (part * test.guarantee.epsilon) for test in game.tests)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=100_000, help="rounds for either input")
    parser.add_argument(
        "--ledger", type=float, default=1.0, help="take this part of every stated epsilon for it"
    )
    parser.add_argument("--quick", action="store_true", help="the ten experiments that CI plays")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="the experiments whose names hold this"
    )
    given = parser.parse_args()
    began, chosen = time.perf_counter(), list(experiments())
    chosen = [
        each for each in chosen if given.only in each[0] and (each[0] in QUICK or not given.quick)
    ]
    broken, tight, guaranteed = [], [], 0
    print(f"{len(chosen)} experiments, {given.games:,} rounds for either input\n")
    print(f"{'at least':>8} {'guarantee':>9} {'of the guarantee':>16}")
    for name, e in chosen:
        # the whole protocol in every round
        games = given.games // (100 if "masks=True" in name else 1)
        best = max(
            play_all(e, FEATURES, games),
            key=lambda game: closeness(game, given.ledger),
            default=None,
        )
        if best is None:
            stated = ledger_of(e, FEATURES).guarantee("models", "round").epsilon
            assert math.isinf(stated), (name, stated)
            print(f"{'-':>8} {'none':>9} {'':>16}  {name}", flush=True)
            continue
        guaranteed += 1
        share = closeness(best, given.ledger)
        (broken if share > 1.0 else tight if share > TIGHT else []).append(name)
        test = max(best.tests, key=lambda test: test.at_least / test.guarantee.epsilon)
        stated = given.ledger * test.guarantee.epsilon
        mark = "  BROKEN" if share > 1.0 else ""
        print(
            f"{test.at_least:8.2f} {stated:9.2f} {share:15.0%}   {name} ({best.name},"
            f" {best.unit}){mark}",
            flush=True,
        )
    print(
        f"\n{guaranteed} experiments with a guarantee, {len(chosen) - guaranteed} with none;"
        f" {len(broken)} broken; {len(tight)} more within a tenth;"
        f" {time.perf_counter() - began:.0f} s"
    )
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
