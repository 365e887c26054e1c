"""foltr: federated online learning to rank. `Experiment(...).run()` is the whole of it; see `foltr
--help`.

Names are imported when they are first used, so that `import foltr` and `foltr --help` cost
nothing."""

import sys
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "Experiment": "foltr.experiment",
    "compare": "foltr.report.comparison",
    "export": "foltr.simulation.exports.export",
    "Result": "foltr.simulation.runs.result",
    "TrainedRanker": "foltr.simulation.runs.trained",
    "load_estimator": "foltr.simulation.exports.export",
    "load_ranker": "foltr.simulation.runs.trained",
    "load_runs": "foltr.report.results",
    "qrels": "foltr.simulation.runs.trained",
    "rank": "foltr.simulation.runs.trained",
    "use": "foltr.experiment.user_files",
    "Mistake": "foltr.core.errors",
}


def __getattr__(name: str) -> Any:
    """The public functions, and every component by its name: `foltr.PDGD`, `foltr.MQ2008`."""
    from importlib import import_module
    from importlib.util import find_spec

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name != name.lower():
        from foltr.core.spec import FAMILIES

        for family in FAMILIES:
            if name in family.members():
                return family.members()[name]
    else:
        try:
            if find_spec(f"foltr.{name}"):
                return import_module(f"foltr.{name}")
        except ModuleNotFoundError as moved:
            raise AttributeError(str(moved)) from None
    raise AttributeError(f"module 'foltr' has no attribute {name!r}")


class _MovedModules:
    """Python asks this after all other finders: it says where a module of foltr 0.2 is now."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("foltr."):
            return None
        from foltr.core.moved import spec_of

        return spec_of(name)


sys.meta_path.append(_MovedModules)  # type: ignore[arg-type]


def __dir__() -> list[str]:
    from foltr.core.spec import FAMILIES

    return sorted(
        [*_HOMES, "__version__", *(name for family in FAMILIES for name in family.members())]
    )
