"""A clock that tests set by hand."""

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
