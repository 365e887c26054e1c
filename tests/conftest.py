"""Where real data is, if it is; and caches of the tests' own, so that no test sees what a user
has."""

import os
from pathlib import Path

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # before NumPy: on a busy machine its threads wait for each other

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data():
    """The folder of real collections; tests that need it are skipped, and say so, where it is
    absent."""
    folder = Path(os.environ.get("FOLTR_DATA", SHARED))
    if not (folder / "MQ2008").is_dir():
        pytest.skip(f"no real data: MQ2008 is not below {folder} (set FOLTR_DATA)")
    return folder


@pytest.fixture
def with_real_data(real_data, monkeypatch):
    monkeypatch.setenv("FOLTR_DATA", str(real_data))
    return real_data
