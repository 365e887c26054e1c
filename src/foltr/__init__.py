"""foltr: federated online learning to rank. `Experiment(...).run()` is the whole of it; see `foltr
--help`.

Names are imported when they are first used, so that `import foltr` and `foltr --help` cost
nothing."""

from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "Experiment": "foltr.experiment",
    "compare": "foltr.comparison",
    "export": "foltr.exports.export",
    "Result": "foltr.runs.result",
    "TrainedRanker": "foltr.runs.trained",
    "load_estimator": "foltr.exports.export",
    "load_ranker": "foltr.runs.trained",
    "load_runs": "foltr.results",
    "qrels": "foltr.runs.trained",
    "rank": "foltr.runs.trained",
    "use": "foltr.runs.user_files",
    "Mistake": "foltr.errors",
}


def __getattr__(name: str) -> Any:
    """The public functions, and every component by its name: `foltr.PDGD`, `foltr.MQ2008`."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name != name.lower():
        from foltr.spec import FAMILIES

        for family in FAMILIES:
            if name in family.members():
                return family.members()[name]
    elif find_spec(f"foltr.{name}"):
        return import_module(f"foltr.{name}")
    raise AttributeError(f"module 'foltr' has no attribute {name!r}")


def __dir__() -> list[str]:
    from foltr.spec import FAMILIES

    return sorted(
        [*_HOMES, "__version__", *(name for family in FAMILIES for name in family.members())]
    )
