"""Where real data is, if it is; and caches of the tests' own, so that no test sees what a user
has."""

import os
import signal
import threading
from pathlib import Path

# before NumPy: on a busy machine its threads wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

# A shell starts background processes with Ctrl-C ignored, and their children inherit it: tests
# that press it would wait for ever.
ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
if ignored and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
