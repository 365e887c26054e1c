"""The status page of `foltr serve` in a browser: it follows the rounds."""

import pytest

from foltr.deployment.server.board import Board
from foltr.deployment.server.status_page import status_page


def add_round(board, t, **more):
    common = {"round": t, "asked": 4, "answered": 3, "withheld": 0, "failures": {"late": 1}}
    board.add_round({**common, "bytes": [900, 800], "seconds": 0.5 + t % 3, **more})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_rounds(watched, scheme):
    board = Board("0123456789ab", 60, 4)
    with status_page(board) as address:
        tab = watched(color_scheme=scheme).tab
        tab.goto(address)
        tab.wait_for_selector("text=No round yet.")
        assert not tab.locator("figure.chart").count()
        add_round(board, 0)
        board.nodes = {"clinic-a": "refused: <img src=x onerror='window.hurt = 1'>"}
        board.note("<script>window.hurt = 1</script>")
        tab.wait_for_selector("figure.chart canvas")
        tab.wait_for_selector("text=1 of 60 rounds done")
        assert tab.locator("figure.chart").count() == 2
        tab.wait_for_selector("text=<script>window.hurt = 1</script>")
        assert tab.evaluate("window.hurt") is None
        for t in range(1, 60):
            add_round(board, t, ndcg=0.3 + t / 1000, best=0.36, refused=t == 30)
        tab.wait_for_selector("text=All 60 rounds are done")
        assert tab.locator("figure.chart").count() == 3
        assert tab.get_attribute("#live", "data-state") == "over"
        assert tab.evaluate("document.querySelector('#live-bar').value") == 60
        tab.locator("figure.chart").nth(2).focus()
        tab.keyboard.press("End")
        tab.wait_for_selector(".tip >> text=0.3590")
        tab.click("#theme")
        tab.goto("about:blank")


def test_on_a_phone_nothing_is_wider_than_the_page(watched):
    board = Board("0123456789ab", 60, 4)
    for t in range(40):
        add_round(board, t, ndcg=0.3, best=0.36, refused=False)
    board.nodes = {"a" * 40: "refused: " + "x" * 300}
    board.ledger = ["privacy " + "x" * 95]
    board.note("y" * 300)
    with status_page(board) as address:
        tab = watched(viewport={"width": 390, "height": 844}).tab
        tab.goto(address)
        tab.wait_for_selector("figure.chart canvas")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert tab.evaluate(wide) == 0
        tab.goto("about:blank")


def test_it_says_when_the_server_is_gone_and_keeps_its_content(watched):
    board = Board("0123456789ab", 60, 4)
    add_round(board, 0)
    each = watched()
    with status_page(board) as address:
        each.tab.goto(address)
        each.tab.wait_for_selector("figure.chart canvas")
    each.tab.wait_for_selector("text=The server does not answer")
    assert each.tab.get_attribute("#live", "data-state") == "gone"
    assert each.tab.locator("figure.chart canvas").first.is_visible()
    each.complaints.clear()  # the browser itself complains of the lost connection
    each.tab.goto("about:blank")
