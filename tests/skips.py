"""Why a test may be skipped: a list. A skip for any other reason fails the session, so that no
test is left out unseen."""

from __future__ import annotations

from collections import Counter

# (what the reason of the skip begins with, what makes these tests run)
ALLOWED = {
    "no real data": "FOLTR_DATA=FOLDER pytest -n 2 (a folder with MQ2007, MQ2008 and the others)",
    "no browser": "apt install chromium",
    "no container engine": "apt install podman",
    "this machine forbids": "run as a user who may mount file systems and read other processes",
    "not on this system": "run on Linux",
    "not in a checkout": "run in a clone of the repository",
}
WITHOUT_DEPLOY = "needs foltr[deploy]"  # allowed with --without-deploy only


def add_option(parser) -> None:
    parser.addoption(
        "--without-deploy",
        action="store_true",
        help="the extra `deploy` is not installed: skip what needs it",
    )


def reasons(terminal) -> Counter[str]:
    """How many tests were skipped for each reason."""
    counted: Counter[str] = Counter()
    for report in terminal.stats.get("skipped", ()):
        if isinstance(report.longrepr, tuple):
            counted[report.longrepr[2].removeprefix("Skipped: ")] += 1
    return counted


def unlisted(config, counted: Counter[str]) -> list[str]:
    """The reasons that are not on the list."""
    listed = [*ALLOWED, WITHOUT_DEPLOY] if config.getoption("--without-deploy") else [*ALLOWED]
    return [each for each in counted if not each.startswith(tuple(listed))]


def closing_lines(config, counted: Counter[str]) -> list[str]:
    """One line per allowed reason: how many tests it skipped, and how to run them."""
    lines = []
    for reason, command in ALLOWED.items():
        if number := sum(n for each, n in counted.items() if each.startswith(reason)):
            lines.append(f"skipped, {reason}: {number} tests. To run them: {command}")
    for each in unlisted(config, counted):
        lines.append(
            f"FAILED: {counted[each]} skipped for a reason that tests/skips.py lacks: {each}"
        )
    return lines
