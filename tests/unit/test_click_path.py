"""The path of a click, as docs/design.md tells it, is the one that a click takes."""

import re
import sys
from pathlib import Path

import numpy as np

import foltr
from foltr.components.aggregators.mean import Mean
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.components.rankers.linear import Linear
from foltr.components.sources.synthetic import Synthetic
from foltr.components.users.cascade import Cascade
from foltr.core.federation import Server, federate
from foltr.core.world.population import iid
from foltr.simulation.engines.debug import Debug

ROOT = Path(foltr.__file__).parent
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "design.md").read_text()


def described():
    """(file, function) of each step, in the page's order."""
    section = PAGE.split("## The path of a click")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", section, re.MULTILINE)


def followed(data, rounds):
    """(file, function) of every call and return inside foltr while a federation runs."""
    learner, seen = PDGD(sessions=1), []

    def watch(frame, event, argument):
        file = Path(frame.f_code.co_filename)
        if event in ("call", "return") and file.is_relative_to(ROOT):
            seen.append((event, str(file.relative_to(ROOT)), frame.f_code.co_qualname))

    engine = Debug(
        learner,
        Linear(),
        iid(data, Cascade(kind="perfect"), 1, 1),
        1,
        np.empty((1, 0), np.float32),
    )
    server = Server(learner, Mean(), SGD())
    start = server.init(np.zeros(data.width))
    parts = server, engine, start, rounds, lambda t: np.array([0]), 1, lambda *_: None
    federate(*parts)  # loads what must be loaded
    sys.setprofile(watch)
    try:
        federate(*parts)
    finally:
        sys.setprofile(None)
    return seen


def left_out():
    """Files and functions that the page names as left out."""
    section = PAGE.split("## The path of a click")[1].split("\n## ")[0]
    words = re.findall(
        r"`([^`]+)`", section.split("whatever else runs")[1].split("\n\nThe local")[0]
    )
    return {word for word in words if word.endswith(".py")}, {*words}


def test_a_click_takes_the_path_that_is_described():
    steps = described()
    assert len(steps) <= 15 and len({file for file, _ in steps}) <= 10
    seen = followed(Synthetic(queries=20).load("train"), 2)
    left = iter([(file, name) for _, file, name in seen])
    missing = next((step for step in steps if step not in left), None)
    assert missing is None, f"{missing} does not come after what the page has before it"


def test_what_the_page_leaves_out_is_named_there():
    """Between the first click and the next list."""
    calls = [
        (f, n)
        for event, f, n in followed(Synthetic(queries=20).load("train"), 2)
        if event == "call"
    ]
    last = len(calls) - calls[::-1].index(("core/ranking.py", "plackett_luce"))
    between = set(calls[calls.index(("core/kinds.py", "TableClickModel.clicks")) : last])
    files, names = left_out()
    steps = {*described()}
    unnamed = {
        (file, name)
        for file, name in between - steps
        if file not in files and name not in names and not name.startswith("Cohort.")
    }
    assert not unnamed
    gone = names - files - {"Cohort"} - {name for _, name in between}
    assert not gone, "named on the page, and not on the way"
