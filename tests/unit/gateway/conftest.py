"""A clock that tests set by hand, and servers that end at once."""

import pytest


class Clock:
    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The clock of the limits on connections."""
    from foltr.gateway import connection_limits  # needs the extra `deploy`

    found = Clock()
    monkeypatch.setattr(connection_limits, "time", found)
    return found


@pytest.fixture(autouse=True)
def _ends_at_once(monkeypatch):
    https_server = pytest.importorskip("foltr.gateway.https_server", reason="needs foltr[deploy]")

    monkeypatch.setattr(https_server, "STOP", 0.01)
