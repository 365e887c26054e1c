"""A real browser: Debian's Chromium, driven by Playwright. Without Chromium the tests are
skipped."""

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foltr.report.page.document import page as made_page
from foltr.report.study import study

sys.path.append(str(Path(__file__).parents[1] / "unit" / "report"))  # for made_runs

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MADE = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.slow)


# Playwright holds this thread's event loop: it must be gone before other tests start
@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no browser")
    import playwright.sync_api as playwright

    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(QUIET))
        yield browser
        browser.close()


class Watched:
    """A tab that notes every complaint and every request to anywhere but the page itself."""

    def __init__(self, chromium, **how):
        how.setdefault("viewport", {"width": 1280, "height": 900})
        self.context = chromium.new_context(accept_downloads=True, reduced_motion="reduce", **how)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.complaints, self.outside = [], []
        self.context.route("**/*", self._request)
        self.tab = self.context.new_page()
        self.tab.on(
            "console",
            lambda message: (
                message.type in ("error", "warning") and self.complaints.append(message.text)
            ),
        )
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _request(self, route):
        if route.request.url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()


@pytest.fixture
def watched(chromium):
    """`watched(color_scheme="dark")`: a tab; in the end nothing may have complained or left the
    machine."""
    tabs = []

    def make(**how):
        tabs.append(Watched(chromium, **how))
        return tabs[-1]

    yield make
    for each in tabs:
        each.context.close()
    assert [each.complaints for each in tabs] == [[] for _ in tabs]
    assert [each.outside for each in tabs] == [[] for _ in tabs]


@pytest.fixture(scope="session")
def runs():
    """3 methods x 3 kinds of users x 5 seeds; one method lacks a seed of one kind, so that it is
    not tested there."""
    from learning_runs import KINDS, run_of
    from made_runs import made_runs

    made = [run_of(c, k, s) for c in (100, 10, 1000) for k in KINDS for s in range(1, 6)]
    made = [run for run in made if run.config != run_of(1000, "perfect", 3).config]
    made[0].final["notes"] = ["features reach 12"]
    return made_runs(made, title="Clients")


@pytest.fixture
def opened(watched, runs, tmp_path):
    """The page of a study, open in a tab."""

    def open_page(of=None, ready="figure.chart canvas", **how):
        file = tmp_path / "report.html"
        file.write_text(made_page(study(of or runs), MADE), encoding="utf-8")
        tab = watched(**how).tab
        tab.goto(file.as_uri())
        tab.wait_for_selector(ready)
        return tab

    return open_page
