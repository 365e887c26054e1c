"""Other names of components in the literature, and earlier names of their members. Only error
messages use it."""

from __future__ import annotations

import inspect

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
    "learner": {"rewards": "reward_levels", "luck": "user_draws", "in_ball": "restricted"},
    "aggregator": {"trusted": "trusted_queries"},
    "privatizer": {"even": "needs_equal_weights", "by_server": "adds_noise_on_server"},
    "partition": {"most": "most_sessions"},
}
# by family: lines that stand for a member where a component has nothing to say, and the class of
# `foltr.kinds` that has them
DEFAULTS = {
    "learner": ("LearnerDefaults", {"separate_searches": "separate_searches = False"}),
    "aggregator": ("Memoryless", {"is_mean": "is_mean = False"}),
    "optimizer": ("OptimizerDefaults", {"step_size": "step_size = None"}),
    "partition": ("PartitionDefaults", {"identical_clients": "identical_clients = False"}),
    "attack": ("ChangesMessages", {}),
    "privatizer": ("Untouched", {"clips_on_arrival": "clips_on_arrival = False"}),
    "unlearner": ("Forgets", {}),
    "click model": ("Tabled", {}),
}
# methods whose parameters changed: name -> (a parameter of before, the line now, what it is now)
CHANGED = {
    "craft": (
        "params",
        "def craft(self, cohort, malicious, ask, rng)",
        "ask.params is what params was, and ask.t is the round",
    ),
    "carry": (
        "asked",
        "def carry(self, cohort, ask, rng)",
        "ask.n is what asked was, and ask.params is what the clients were sent",
    ),
}


def missing(family: str, names: list[str]) -> str:
    """How to give a component the members that it lacks."""
    base, lines = DEFAULTS.get(family, ("", {}))
    known = [f"`{lines[name]}`" for name in names if name in lines]
    inherit = f"inherit {base} of foltr.kinds" if base else "write them"
    return f"add {', '.join(known)}, or {inherit}" if len(known) == len(names) else inherit


def outdated(family: str, cls: type) -> str:
    """What in a user's class was written for an earlier foltr; empty if nothing was."""
    own = {
        name: value
        for base in cls.__mro__
        if not _ours(base)
        for name, value in vars(base).items()
    }
    for before, now in RENAMED.get(family, {}).items():
        if before in own:
            return f"{before} is called {now} now: rename it"
    for name, (before, line, meaning) in CHANGED.items():
        if inspect.isfunction(own.get(name)) and before in inspect.signature(own[name]).parameters:
            return f"{name} has another parameter now: write `{line}`; {meaning}"
    return ""


def _ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("foltr", "builtins")
