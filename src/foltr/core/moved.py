"""Where the modules of foltr 0.2 are now. An import of one is refused with its new place."""

from __future__ import annotations

from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1]
# those that the documentation of foltr 0.2 named
MODULES = {
    "cohorts": "core.cohorts",
    "comparison": "report.comparison",
    "compatibility": "experiment.compatibility",
    "data.lookup": "data.collection",
    "device.features": "device.searching",
    "engines.flower": "deployment.protocol.engine",
    "errors": "core.errors",
    "events": "core.events",
    "federated.credentials": "deployment.keys.device_keys",
    "federated.device": "deployment.protocol.participant",
    "federated.sum_device": "deployment.protocol.sums",
    "federation": "core.federation",
    "guards": "core.guards",
    "kinds": "core.kinds",
    "metrics": "core.metrics",
    "noise": "core.noise",
    "privacy.clipping": "core.noise",
    "privacy.ledger": "privacy.guarantee",
    "ranking": "core.ranking",
    "report.chapters.blocks": "report.chapters.registry",
    "results": "report.results",
    "runs.account": "privacy.guarantee",
    "runs.exposure": "privacy.participation",
    "runs.user_files": "experiment.user_files",
    "scoring.layers": "core.scoring",
    "scoring.normalisation": "core.scoring",
    "seeds": "core.seeds",
    "serving.flower_client": "deployment.node.flower_client",
    "serving.flower_server": "deployment.server.flower_server",
    "serving.logged": "deployment.node.logged",
    "serving.node_clients": "deployment.node.clients",
    "spec": "core.spec",
    "stepwise": "core.stepwise",
    "web": "core.system.web",
    "world.user": "core.world.population",
}
PACKAGES = {
    "advice": "core",
    "audits": "simulation.audits",
    "engines": "simulation.engines",
    "exports": "simulation.exports",
    "federated": "deployment.protocol",
    "gateway": "deployment.gateway",
    "planning": "deployment.planning",
    "runs": "simulation.runs",
    "scoring": "core",
    "serving": "deployment.server",
    "sweeps": "simulation.sweeps",
    "system": "core.system",
    "world": "core.world",
}


def place(name: str) -> str:
    """What to say to whoever imports a module of foltr 0.2; empty if there was none."""
    old = name.removeprefix("foltr.")
    package, _, module = old.partition(".")
    if old in MODULES:
        return f"{name} has moved: import foltr.{MODULES[old]}"
    if package not in PACKAGES:
        return ""
    new = f"{PACKAGES[package]}.{module}" if module else PACKAGES[package]
    found = SOURCE.joinpath(*new.split("."))
    if found.is_dir() or found.with_suffix(".py").is_file():
        return f"{name} has moved: import foltr.{new}"
    return f"{name} has moved: docs/design.md says where things are"


def spec_of(name: str) -> ModuleSpec | None:
    """Refuse a module that has moved. Python imports a package before its modules, so a package
    that has moved is found: then its module can be refused, or its first name."""
    if name.removeprefix("foltr.") in PACKAGES:
        return ModuleSpec(name, _MovedPackage(), is_package=True)
    if told := place(name):
        raise ModuleNotFoundError(told, name=name)
    return None


class _MovedPackage(Loader):
    """Makes a package whose names are all refused."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        def refuse(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            raise ModuleNotFoundError(place(module.__name__), name=module.__name__)

        module.__getattr__ = refuse  # type: ignore[method-assign]
