"""A clock that tests set by hand, and servers that end at once."""

import asyncio
from types import SimpleNamespace

import pytest

SLEEP_SECONDS = 0.005


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock of the limits on connections."""
    from foltr.deployment.gateway import connection_limits  # needs the extra `deploy`

    found = Clock()
    monkeypatch.setattr(connection_limits, "time", found)
    return found


def sleep(seconds):
    return asyncio.sleep(min(seconds, SLEEP_SECONDS))


@pytest.fixture(autouse=True)
def _ends_at_once(monkeypatch):
    https_server = pytest.importorskip(
        "foltr.deployment.gateway.https_server", reason="needs foltr[deploy]"
    )
    import uvicorn.server

    monkeypatch.setattr(https_server, "STOP", SLEEP_SECONDS)
    # uvicorn looks ten times a second whether to end, and then sleeps for a tenth of a second
    quick = SimpleNamespace(**{**vars(asyncio), "sleep": sleep})
    monkeypatch.setattr(uvicorn.server, "asyncio", quick)
