import pytest

from foltr.report.page import live_page


@pytest.fixture
def never_resting(monkeypatch):
    """The page is made again as often as it is refreshed."""
    monkeypatch.setattr(live_page, "SHARE", 0)
    monkeypatch.setattr(live_page, "LEAST", 0.0)
