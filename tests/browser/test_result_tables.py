"""Grids of attacks and defences in a browser: wide tables scroll in their own box, folded ones
open, phones too."""

import pytest
from made_runs import KINDS, made_run, made_runs

ATTACKS = [f"Attack{i}(knowledge='own')" for i in range(9)]
RULES = ["Mean()", *(f"Rule{i}(malicious={{}})" for i in range(8))]


def grid():
    for kind in KINDS:
        users = f"Cascade(kind='{kind}')"
        for i, rule in enumerate(RULES):
            for m in (1, 2):
                told = {"aggregator": rule.format(m), "users": users, "clients": 10}
                if "{}" in rule or m == 1:
                    yield made_run(0.5 - 0.01 * i, **told)
                for j, attack in enumerate(ATTACKS):
                    yield made_run(
                        0.5 - 0.02 * m * ((i + j) % 9), attack=attack, malicious=m, **told
                    )


@pytest.fixture(scope="module")
def grid_runs():
    return made_runs(grid(), title="Grid")


def overflow(tab):
    return tab.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


@pytest.mark.parametrize("width", [360, 1280])
def test_wide_tables_scroll_in_their_own_box(opened, grid_runs, width):
    tab = opened(grid_runs, viewport={"width": width, "height": 800})
    folds = tab.locator("#results details")
    assert folds.count() == 6 and not folds.first.evaluate("fold => fold.open")
    folds.first.locator("summary").click()
    box = folds.first.locator(".scroll")
    assert box.is_visible() and box.evaluate("box => box.scrollWidth > box.clientWidth")
    assert overflow(tab) == 0
    head = box.locator("tbody th").first
    left = head.bounding_box()["x"]
    box.evaluate("box => { box.scrollLeft = 10000; }")
    assert head.bounding_box()["x"] == pytest.approx(left, abs=1)  # the rule stays in sight
    worst = box.locator("tbody tr").first.locator("td").last
    assert worst.is_visible() and "Attack8" in worst.inner_text()  # 8 x 0.02 below


def test_folds_open_by_keyboard_and_the_way_there_is_in_the_navigation(opened, grid_runs):
    tab = opened(grid_runs)
    assert tab.locator('nav a[href="#results"]').is_visible()
    summary = tab.locator("#results details summary").nth(1)
    summary.focus()
    tab.keyboard.press("Enter")
    assert tab.locator("#results details").nth(1).evaluate("fold => fold.open")


def test_without_results_there_is_no_way_there(opened):
    assert not opened().locator('nav a[href="#results"]').is_visible()


def test_what_is_open_stays_open_when_the_page_lives(opened, grid_runs):
    tab = opened(grid_runs)
    tab.locator("#results details summary").nth(2).click()
    html = tab.locator("#results").inner_html()
    tab.evaluate(
        "html => renew({ sections: { results: html.replaceAll(' open=\"\"', '') }, title: 'x',"
        " data: null })",
        html,
    )
    assert [
        fold.evaluate("fold => fold.open") for fold in tab.locator("#results details").all()
    ] == [i == 2 for i in range(6)]
