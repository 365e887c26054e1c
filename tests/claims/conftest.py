"""Studies of reproduce/ that claims are checked on."""

import os
from pathlib import Path

import pytest

from foltr.report.results import load_runs
from foltr.simulation.sweeps.file import read_sweep
from foltr.simulation.sweeps.pools import Pool
from foltr.simulation.sweeps.run import sweep

REPRODUCE = Path(__file__).resolve().parents[2] / "reproduce"


@pytest.fixture(scope="session")
def made(real_data, tmp_path_factory):
    """made(name, chosen) are the runs of reproduce/name.toml, or of those points of it that are
    `chosen`. With FOLTR_CLAIMS they are kept in that folder, and found there if they are
    finished."""
    folder = Path(os.environ.get("FOLTR_CLAIMS") or tmp_path_factory.mktemp("claims"))

    def runs(name, chosen=lambda point: True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FOLTR_DATA", str(real_data))
            points = [
                point for point in read_sweep(REPRODUCE / f"{name}.toml").points if chosen(point)
            ]
            swept = sweep(points, folder, f"{name}-claims", pool=Pool(2))
        assert not swept.failed and not swept.waiting
        return load_runs(swept.record.path)

    return runs
