"""What `bits.py` runs with two versions of foltr: every component, with most of its options, on
small data.

One process makes a whole group of cases, so that what is read and compiled for one serves the
next. Data sets that must be downloaded are not covered."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Fields = dict[str, Any]  # of an experiment, as in a TOML file
Cases = dict[str, Fields]  # by name


@dataclass(frozen=True)
class Group:
    """Cases that one process makes: each is what they have in common, but for the fields that it
    names."""

    name: str
    common: Fields
    cases: Cases
    engine: str = "local"
    interrupted: bool = False  # by Ctrl-C in the middle, and resumed


SMALL = {"data": "Synthetic(queries=40)", "clients": 10, "rounds": 6, "evaluate_every": 3}

DATA: Cases = {
    "data in the shape of MQ2007": {"data": "Synthetic(shape='MQ2007', queries=50)"},
    "data in the shape of MQ2008": {"data": "Synthetic(shape='MQ2008', queries=40)"},
    "data in the shape of MSLR": {"data": "Synthetic(shape='MSLR', queries=40)"},
    "data in the shape of Yahoo": {"data": "Synthetic(shape='Yahoo', queries=40)"},
    "data in the shape of Istella-S": {"data": "Synthetic(shape='IstellaS', queries=40)"},
    "data of another seed, noise and bend": {
        "data": "Synthetic(queries=40, seed=3, noise=0.5, bend=0.5)"
    },
    "LETOR files": {"data": "Letor(path='letor')"},
    "LETOR files, normalised": {"data": "Letor(path='letor', normalize=True)"},
    "LETOR files, sparse, with more features and grades": {
        "data": "Letor(path='sparse', sparse=True, features=12, grades=5)"
    },
    "data with marked users, IID": {"data": "Marked(data=Synthetic(queries=40), users=5)"},
    "queries with nothing relevant count 0": {"data": "Letor(path='letor')", "empty": "zero"},
    "queries with nothing relevant count 1": {"data": "Letor(path='letor')", "empty": "one"},
    "another seed": {"seed": 2},
}

PARTITIONS: Cases = {
    "by intent": {"data": "Intents(path='intents')", "partition": "ByIntent()", "clients": 3},
    "by intent, for good": {
        "data": "Intents(path='intents')",
        "partition": "ByIntent(dealt='for good')",
        "clients": 3,
    },
    "by intent, IID twin": {
        "data": "Intents(path='intents')",
        "partition": "ByIntent(iid=True)",
        "clients": 3,
    },
    "by label, one each": {"partition": "ByLabel(labels=1)", "clients": 6},
    "by label, two each, copies": {"partition": "ByLabel(labels=2, deal='copies')", "clients": 6},
    "by label, IID twin": {"partition": "ByLabel(iid=True)", "clients": 6},
    "by clicks, cascades": {"partition": "ByClicks()"},
    "by clicks, positions": {"partition": "ByClicks(models='positions')"},
    "by clicks, own models, IID twin": {
        "partition": (
            "ByClicks(models=(Cascade(kind='navigational'), PositionBased(eta=0.5)), iid=True)"
        )
    },
    "by volume": {"partition": "ByVolume()"},
    "by volume and label": {
        "partition": "ByVolume(sessions=(1, 2, 4), of=ByLabel())",
        "clients": 6,
    },
    "by user": {"data": "Marked(data=Synthetic(queries=40), users=10)", "partition": "ByUser()"},
    "by user, fewer clients than users": {
        "data": "Marked(data=Synthetic(queries=40), users=10)",
        "partition": "ByUser()",
        "clients": 6,
    },
    "by label, a part of the queries shared": {
        "partition": "Sharing(of=ByLabel(), warmup=5)",
        "clients": 6,
    },
}

USERS: Cases = {
    "navigational clicks": {"users": "Cascade(kind='navigational')"},
    "informational clicks": {"users": "Cascade(kind='informational')"},
    "poisonous clicks": {"users": "Cascade(kind='poison')"},
    "clicks by own numbers": {
        "users": "Cascade(kind='custom', click=(0.1, 0.5, 0.9), stop=(0.0, 0.3, 0.6))"
    },
    "clicks by position": {"users": "PositionBased()"},
    "clicks by position, less biased": {"users": "PositionBased(eta=0.3)"},
}

LEARNERS: Cases = {
    "PDGD": {"learner": "PDGD(lr=0.1, sessions=5)"},
    "PDGD, decay": {"learner": "PDGD(decay=0.99)"},
    "PDGD, lists of 5, pairs as shown": {"learner": "PDGD(k=5, pairs='shown')"},
    "PDGD, no exploration": {"learner": "PDGD(explore=False)"},
    "PDGD, weights in a ball": {"learner": "PDGD(max_norm=0.5)"},
    "FedProx": {"learner": "PDGD(mu=0.1)"},
    "FedSGD": {"learner": "PDGD(update='round')"},
    "PDGD, scores far apart": {"learner": "PDGD(lr=300.0)"},
    "PDGD, MLP": {"ranker": "MLP(hidden=16)"},
    "PDGD, MLP of relu": {"ranker": "MLP(hidden=10, activation='relu')"},
    "PDGD, MLP of tanh, wide start": {"ranker": "MLP(hidden=7, activation='tanh', scale=0.5)"},
    "PDGD, MLP, FedSGD in a ball": {
        "ranker": "MLP(hidden=16)",
        "learner": "PDGD(update='round', max_norm=0.5)",
    },
    "PDGD, MLP, FedProx": {"ranker": "MLP(hidden=16)", "learner": "PDGD(mu=0.1, decay=0.99)"},
    "ES": {"learner": "ES()", "optimizer": "Adam(lr=0.001)"},
    "ES, one perturbation": {"learner": "ES(antithetic=False)"},
    "ES, for DCG, in levels": {"learner": "ES(objective='dcg', levels=8)"},
    "ES, for clicks": {"learner": "ES(objective='ctr', sigma=0.1)"},
    "ES, for the first click, lists of 5": {"learner": "ES(objective='first', k=5)"},
    "ES, for the last click": {"learner": "ES(objective='last', sessions=6)"},
    "ES as published, one seed": {
        "learner": "ES(entropy='shared')",
        "optimizer": "Adam(lr=0.001)",
    },
    "ES, MLP": {"learner": "ES()", "ranker": "MLP(hidden=10, activation='relu', scale=0.0)"},
    "personal rankers": {"learner": "Personal(learner=PDGD(), pull=0.05)"},
    "personal rankers, MLP, by label": {
        "learner": "Personal()",
        "ranker": "MLP(hidden=8)",
        "partition": "ByLabel()",
        "clients": 6,
    },
    "FedPer": {"learner": "FedPer()", "ranker": "MLP(hidden=8)"},
    "FedPer, a part of the clients": {
        "learner": "FedPer()",
        "ranker": "MLP(hidden=8)",
        "participation": 0.5,
    },
}

SERVER: Cases = {
    "one client, centralised": {"clients": 1, "rounds": 20},
    "fifty clients": {"clients": 50},
    "three hundred clients": {"clients": 300, "rounds": 3},
    "server's SGD, longer steps": {"optimizer": "SGD(lr=5.0)"},
    "server's Adam": {"optimizer": "Adam(lr=0.01, b1=0.8, b2=0.99)"},
    "a part of the clients": {"participation": 0.3},
    "lost messages": {"dropout": 0.3},
    "a part of the clients, lost messages": {"participation": 0.5, "dropout": 0.5},
    "stored history": {"history": 2},
    "stored history, a part of the clients": {"history": 3, "participation": 0.5},
}

ATTACKED = {**SMALL, "rounds": 15, "clients": 15, "malicious": 3, "attack": "LittleIsEnough()"}
ATTACKS: Cases = {
    "attack: poisoned clicks; mean": {"attack": "DataPoisoning()"},
    "attack: own poisoned clicks; ES": {
        "attack": "DataPoisoning(clicks=PositionBased(eta=0.0))",
        "learner": "ES()",
    },
    "attack: a little is enough; mean": {},
    "attack: a little is enough, z and all known; mean": {
        "attack": "LittleIsEnough(z=1.5, knowledge='all', variant='all')"
    },
    "attack: a little is enough; Krum": {"aggregator": "Krum(malicious=3)"},
    "attack: Fang; Krum": {"attack": "FangKrum()", "aggregator": "Krum(malicious=3)"},
    "attack: Fang, all known; squared Krum": {
        "attack": "FangKrum(knowledge='all', squared=True)",
        "aggregator": "Krum(malicious=3, squared=True)",
    },
    "attack: Fang; multi-Krum": {
        "attack": "FangMultiKrum()",
        "aggregator": "MultiKrum(malicious=3)",
    },
    "attack: Fang; trimmed mean": {
        "attack": "FangTrimmed()",
        "aggregator": "TrimmedMean(malicious=3)",
    },
    "attack: Fang, all known; median": {
        "attack": "FangTrimmed(knowledge='all')",
        "aggregator": "Median()",
    },
    "attack: min-max; Bulyan": {"attack": "MinMax()", "aggregator": "Bulyan(malicious=3)"},
    "attack: min-max, unit, own; geometric median": {
        "attack": "MinMax(direction='unit', knowledge='own')",
        "aggregator": "GeometricMedian()",
    },
    "attack: min-sum; DnC": {
        "attack": "MinSum()",
        "aggregator": "DnC(malicious=3, coordinates=20, iterations=3)",
    },
    "attack: min-sum, sign; centred clipping": {
        "attack": "MinSum(direction='sign')",
        "aggregator": "CenteredClipping(iterations=2)",
    },
    "attack: tailored; median": {"attack": "Tailored(rule=Median())", "aggregator": "Median()"},
    "attack: tailored, own; Krum": {
        "attack": "Tailored(rule=Krum(malicious=3), knowledge='own')",
        "aggregator": "Krum(malicious=3)",
    },
    "attack: inner product; FLTrust": {
        "attack": "InnerProduct()",
        "aggregator": "FLTrust(queries=5)",
    },
    "attack: inner product, own; NNM": {
        "attack": "InnerProduct(scale=2.0, knowledge='own')",
        "aggregator": "NNM(malicious=3)",
    },
    "attack: mimic; bucketing": {"attack": "Mimic()", "aggregator": "Bucketing()"},
    "attack: mimic the outermost; buckets of 3, Krum": {
        "attack": "Mimic(target='outermost')",
        "aggregator": "Bucketing(rule=Krum(malicious=1), size=3)",
    },
    "attack: compromised model; gated": {
        "attack": "CompromisedModel()",
        "aggregator": "Gated(fallback=Median(), horizon=20)",
        "rounds": 30,
    },
    "attack: compromised model; mean": {"attack": "CompromisedModel(z=1.0)"},
    "attack: disguised; multi-Krum": {
        "attack": "Disguised()",
        "aggregator": "MultiKrum(malicious=3, squared=True)",
    },
    "attack: disguised mimic; gated": {
        "attack": "Disguised(attack=Mimic(), share=0.5)",
        "aggregator": "Gated()",
        "rounds": 30,
    },
    "attack: roaming; median": {"roaming": True, "aggregator": "Median()"},
    "attack: MLP, a part of the clients, messages lost; trimmed mean": {
        "attack": "LittleIsEnough(z=1.0)",
        "ranker": "MLP(hidden=8)",
        "participation": 0.8,
        "dropout": 0.1,
        "aggregator": "TrimmedMean(malicious=1)",
    },
    "no attack; Krum": {"attack": "none", "malicious": 0, "aggregator": "Krum(malicious=3)"},
    "no attack; NNM and Krum, MLP": {
        "attack": "none",
        "malicious": 0,
        "ranker": "MLP(hidden=8)",
        "aggregator": "NNM(rule=Krum(malicious=3), malicious=3)",
    },
    "no attack; FLTrust": {"attack": "none", "malicious": 0, "aggregator": "FLTrust()"},
    "no attack; gated": {"attack": "none", "malicious": 0, "aggregator": "Gated()"},
    "no attack; gated, a part of the clients": {
        "attack": "none",
        "malicious": 0,
        "aggregator": "Gated()",
        "participation": 0.8,
    },
}

SECURE_SUM = "SecureSum()"
LAPLACE = "Laplace(epsilon=2.0, clip=0.5)"
GAUSSIAN = "Gaussian(noise=1.0, clip=0.5)"
GAUSSIAN_IN_SHARES = "Gaussian(noise=2.0, clip=0.5, where='shares')"
GAUSSIAN_OF_SERVER = "Gaussian(noise=2.0, clip=0.5, where='server')"
GAMMA_SHARES = "GammaShares(epsilon=4.5, sensitivity=3.0)"
PRIVACY: Cases = {
    "randomized rewards": {"learner": "ES()", "privacy": "RandomizedReward(p=0.9)"},
    "randomized rewards for DCG in levels, MLP": {
        "learner": "ES(objective='dcg', levels=4)",
        "ranker": "MLP(hidden=8)",
        "privacy": "RandomizedReward(p=0.6)",
    },
    "randomized rewards, one seed": {
        "learner": "ES(entropy='shared')",
        "privacy": "RandomizedReward(p=0.9)",
    },
    "Laplace noise": {"privacy": LAPLACE},
    "Laplace noise, MLP, Krum": {
        "privacy": LAPLACE,
        "ranker": "MLP(hidden=8)",
        "aggregator": "Krum(malicious=2)",
    },
    "Laplace noise, secure sum": {"privacy": LAPLACE, "channel": SECURE_SUM},
    "Gaussian noise of clients": {"privacy": GAUSSIAN},
    "Gaussian noise of clients, personal rankers": {"privacy": GAUSSIAN, "learner": "Personal()"},
    "Gaussian noise in shares, secure sum": {"privacy": GAUSSIAN_IN_SHARES, "channel": SECURE_SUM},
    "Gaussian noise in shares, secure sum, lost messages": {
        "privacy": GAUSSIAN_IN_SHARES,
        "channel": SECURE_SUM,
        "dropout": 0.2,
    },
    "Gaussian noise of the server": {"privacy": GAUSSIAN_OF_SERVER},
    "Gaussian noise of the server, a part of 50 clients": {
        "privacy": GAUSSIAN_OF_SERVER,
        "clients": 50,
        "participation": 0.2,
    },
    "gamma shares, half": {"privacy": GAMMA_SHARES},
    "gamma shares, full": {"privacy": "GammaShares(epsilon=4.5, sensitivity=3.0, clip='full')"},
    "gamma shares, half, secure sum": {"privacy": GAMMA_SHARES, "channel": SECURE_SUM},
    "gamma shares, full, MLP, secure sum, lost messages": {
        "privacy": "GammaShares(epsilon=1.2, sensitivity=5.0, clip='full')",
        "channel": SECURE_SUM,
        "dropout": 0.2,
        "ranker": "MLP(hidden=8)",
    },
    "gamma shares, a part of 50 clients": {
        "privacy": GAMMA_SHARES,
        "clients": 50,
        "participation": 0.2,
    },
}

CHANNELS: Cases = {
    "secure sum": {"channel": SECURE_SUM},
    "secure sum, coarse": {"channel": "SecureSum(fraction_bits=12)"},
    "secure sum, with masks": {"channel": "SecureSum(masks=True)"},
    "secure sum, with masks, signed": {"channel": "SecureSum(masks=True, consistency=True)"},
    "secure sum, lost messages": {"channel": SECURE_SUM, "dropout": 0.2},
    "secure sum, with masks, lost messages": {"channel": "SecureSum(masks=True)", "dropout": 0.2},
    "secure sum, too few in some rounds": {"channel": "SecureSum(threshold=0.8)", "dropout": 0.2},
    "secure sum, sparse graph of masks, lost messages": {
        "channel": SECURE_SUM,
        "clients": 200,
        "dropout": 0.1,
        "learner": "PDGD(sessions=1)",
    },
    "secure sum, by volume, MLP, Adam": {
        "channel": SECURE_SUM,
        "partition": "ByVolume()",
        "ranker": "MLP(hidden=8)",
        "optimizer": "Adam(lr=0.01)",
    },
}

LEAVING = {
    **SMALL,
    "clients": 6,
    "rounds": 10,
    "history": 2,
    "learner": "PDGD(sessions=5)",
    "leaving": [[3]],
}
UNLEARNING: Cases = {
    "unlearning: retrained": {"unlearning": "Retrain()"},
    "unlearning: retrained, other luck": {"unlearning": "Retrain(luck=1)"},
    "unlearning: FedEraser": {"unlearning": "FedEraser(sessions=3)"},
    "unlearning: FedEraser, one after another": {
        "unlearning": "FedEraser(sessions=3)",
        "leaving": [[3], [0, 5]],
    },
    "unlearning: FedEraser, the malicious, Krum": {
        "unlearning": "FedEraser()",
        "leaving": "malicious",
        "attack": "CompromisedModel()",
        "malicious": 1,
        "aggregator": "Krum(malicious=1)",
    },
    "unlearning: FedEraser, marked users, MLP": {
        "unlearning": "FedEraser()",
        "data": "Marked(data=Synthetic(queries=40), users=6)",
        "partition": "ByUser()",
        "ranker": "MLP(hidden=8)",
    },
    "unlearning: FedEraser, personal rankers": {
        "unlearning": "FedEraser(sessions=2)",
        "learner": "Personal()",
    },
    "unlearning: fine-tuned": {"unlearning": "FineTune(rounds=4)"},
    "unlearning: gradient ascent": {"unlearning": "GradientAscent(rounds=3, fine_tune=4)"},
    "unlearning: gradient ascent, stored": {
        "unlearning": "GradientAscent(rounds=3, fine_tune=4, stored=True)"
    },
    "unlearning: subtracted": {"unlearning": "FedRemove(fine_tune=0)"},
    "unlearning: subtracted, then on": {
        "unlearning": "FedRemove(fine_tune=4)",
        "participation": 0.8,
    },
}

BASELINES: Cases = {
    "baseline: least squares": {"baseline": "LeastSquares()"},
    "baseline: ranking SVM": {"baseline": "RankingSVM()"},
    "baseline: LambdaMART": {"baseline": "LambdaMART(trees=10)"},
}

DEBUG_ENGINE: Cases = {
    "debug engine: PDGD": {},
    "debug engine: PDGD, MLP": {"ranker": "MLP(hidden=8)"},
    "debug engine: PDGD, scores far apart": {"learner": "PDGD(lr=300.0)"},
    "debug engine: ES, randomized rewards": {
        "learner": "ES()",
        "privacy": "RandomizedReward(p=0.9)",
    },
    "debug engine: ES as published, one seed": {"learner": "ES(entropy='shared')"},
    "debug engine: personal rankers": {"learner": "Personal()"},
    "debug engine: FedPer": {"learner": "FedPer()", "ranker": "MLP(hidden=8)"},
    "debug engine: gamma shares": {"privacy": GAMMA_SHARES},
    "debug engine: Gaussian noise": {"privacy": GAUSSIAN},
    "debug engine: Laplace noise": {"privacy": LAPLACE},
    "debug engine: a little is enough, Krum": {
        "attack": "LittleIsEnough()",
        "clients": 15,
        "malicious": 3,
        "aggregator": "Krum(malicious=3)",
    },
    "debug engine: gated": {"aggregator": "Gated()"},
    "debug engine: FedEraser": {
        "history": 2,
        "unlearning": "FedEraser(sessions=2)",
        "leaving": [[3]],
    },
}

# seconds: enough to be stopped on its way
LONG = {**SMALL, "clients": 20, "rounds": 3000, "evaluate_every": 1000}
INTERRUPTED: Cases = {"stopped and resumed": {"ranker": "MLP(hidden=64)"}}

GROUPS = (
    Group("learners", SMALL, LEARNERS),
    Group("data", SMALL, DATA),
    Group("partitions", SMALL, PARTITIONS),
    Group("users", SMALL, USERS),
    Group("server", SMALL, SERVER),
    Group("attacks", ATTACKED, ATTACKS),
    Group("privacy", SMALL, PRIVACY),
    Group("channels", SMALL, CHANNELS),
    Group("unlearning", LEAVING, UNLEARNING),
    Group("baselines", SMALL, BASELINES),
    Group("debug", {**SMALL, "rounds": 3}, DEBUG_ENGINE, engine="debug"),
    Group("interrupted", LONG, INTERRUPTED, interrupted=True),
)


def write_collections(folder: Path) -> None:
    """What cases read below `folder`, the same on every call: all features, some features, three
    intents."""
    for name in ("letor", "sparse"):
        for split, queries in {"train": 40, "vali": 12, "test": 20}.items():
            luck = random.Random(f"{name} {split}")
            write(
                folder / name / f"{split}.txt", documents(luck, queries, sparse=name == "sparse")
            )
    judged = list(documents(random.Random("intents"), 40))
    for intent in (1, 2, 3):
        luck = random.Random(f"intent {intent}")
        write(
            folder / "intents" / f"{intent}.txt",
            (f"{int(luck.random() < 0.25)}{line[1:]}" for line in judged),
        )


def write(path: Path, lines: Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def documents(luck: random.Random, queries: int, sparse: bool = False) -> Iterator[str]:
    """Lines of a LETOR file. Some queries have nothing relevant; each feature has its own
    scale."""
    for query in range(queries):
        hopeless = luck.random() < 0.15
        for document in range(3 + int(luck.random() * 15)):
            values = [luck.random() for _ in range(9)]
            grade = (
                0
                if hopeless
                else int(2.999 * (0.5 * values[0] + 0.3 * values[3] + 0.2 * luck.random()))
            )
            features = [
                f"{i}:{value * i:.6f}"
                for i, value in enumerate(values, 1)
                if not sparse or value > 0.5
            ]
            yield f"{grade} qid:{query + 1} {' '.join(features)} #docid = D{query}-{document}\n"
