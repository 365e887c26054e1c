"""Other names of components in the literature, and earlier names of members. Only error messages
use it."""

from __future__ import annotations

from typing import NamedTuple

OTHER_NAMES = {
    "FPDGD": "it is PDGD with more than one client",
    "FedAvg": "it is Mean",
    "FedProx": "it is PDGD with mu > 0",
    "FedSGD": "it is PDGD with update='round'",
    "FOLtR-ES": "it is ES",
    "FOLtRES": "it is ES",
    "MSE": "it is LeastSquares",
    "SVMRank": "it is RankingSVM",
    "SecAgg": "it is SecureSum",
    "NonIID": "it is ByIntent, ByLabel, ByClicks or ByVolume",
    "LIE": "it is LittleIsEnough",
    "ALIE": "it is LittleIsEnough",
    "IPM": "it is InnerProduct",
    "DataSharing": "it is Sharing, a partition around another",
    "Ditto": "it is Personal",
    "PGA": "it is GradientAscent",
    "RFA": "it is GeometricMedian",
    "CClip": "it is CenteredClipping",
    "TrMean": "it is TrimmedMean",
    "CWMed": "it is Median",
    "Resampling": "it is Bucketing",
    "DivideAndConquer": "it is DnC",
}

# by family: a member's name before -> its name now
RENAMED = {
    "learner": {"rewards": "reward_levels", "luck": "user_draws"},
    "aggregator": {"trusted": "trusted_queries"},
    "privatizer": {"even": "needs_equal_weights", "by_server": "adds_noise_on_server"},
    "partition": {"most": "most_sessions"},
    "unlearner": {"luck": "repetition"},
}


def renamed(before: str, now: str, is_field: bool) -> str:
    """What to do with a member that a component has under its name of before. Specs of before name
    its fields, so those must stay."""
    if is_field:
        return f"{before} is asked for as {now} now: add a property {now} that returns it"
    return f"{before} is called {now} now: rename it"


class Member(NamedTuple):
    """What a member of foltr's objects is now."""

    now: str
    sure: bool = False  # the word is so rare that whoever writes it means the member


# a member's name before -> what it is now, for whoever uses it
MEMBERS = {
    "most": Member("most_sessions", sure=True),
    "rewards": Member("reward_levels"),
    "luck": Member("user_draws"),
    "in_ball": Member("restricted(ball=...)", sure=True),
    "trusted": Member("trusted_queries"),
    "even": Member("needs_equal_weights"),
    "by_server": Member("adds_noise_on_server", sure=True),
    "arriving": Member("least_arriving", sure=True),
    "off": Member("log_error"),
    "deceit": Member("malicious_model", sure=True),
    "hosted": Member("server_clients"),
    "turned": Member("models_with_malicious"),
    "user": Member("SimulatedUser(population, client, rng) of foltr.world.user"),
    "promised": Member("guarantee"),
    "params": Member("ask.params, which channels and attacks are given"),
    "client_step": Member("Client(...).step(ask, memory, user) of foltr.federation"),
}


class Change(NamedTuple):
    """A method whose parameters are others now."""

    line: str  # as it is written now
    meaning: str  # of the new parameters
    at: int | None = None  # where the new parameter `ask` stands; None if the name changed too

    def is_old(self, given: list[str]) -> bool:
        """Whether a method with these parameters is of before: as many, but another at that
        place."""
        if self.at is None:
            return True
        now = [word.strip() for word in self.line.partition("(")[2].rstrip(")").split(",")]
        return len(given) == len(now) and given[self.at].lstrip("_") != now[self.at]

    def told(self, name: str) -> str:
        what = "is another method now" if self.at is None else "has another parameter now"
        return f"{name} {what}: write `{self.line}`; {self.meaning}"


# (family, method before) -> what it is now
CHANGED = {
    ("attack", "craft"): Change(
        "def craft(self, cohort, malicious, ask, rng)",
        "ask.params is what params was, and ask.t is the round",
        3,
    ),
    ("channel", "carry"): Change(
        "def carry(self, cohort, ask, rng)",
        "ask.n is what asked was, and ask.params is what the clients were sent",
        2,
    ),
    ("learner", "in_ball"): Change(
        "def restricted(self, ball=None, memory=True, single_search=False)",
        "ball is what radius was, or None; raise a Mistake where it cannot be done",
    ),
}
