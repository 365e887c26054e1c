"""The page while a sweep runs: it follows, and keeps what the reader does."""

import json
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import uvicorn
from learning_runs import run_of
from playwright.sync_api import expect

from foltr.core.system import web
from foltr.report.page import live_page
from foltr.report.page import live_page as watch_server
from foltr.report.page.live_page import LivePage
from foltr.report.results import load_runs
from foltr.simulation.runs.folder import RESULTS, Folder


def put(run, below):
    """A finished run's folder."""
    folder = below / run.name
    folder.mkdir()
    lines = [f"{name} = {json.dumps(value)}" for name, value in run.config.items()]
    (folder / "config.toml").write_text("\n".join(lines))
    (folder / "environment.json").write_text(json.dumps({"results": RESULTS, "foltr": "0.1.0"}))
    Folder(folder).finish(np.zeros(3), run.metrics, run.final)


@contextmanager
def serving(below, planned):
    """A server on a free port, and the means to stop it."""

    def progress():
        done = len(list(below.glob("*/result.json")))
        running = [{"run": "next-run", "round": 7, "rounds": 40}] if done < planned else []
        return {
            "planned": planned,
            "done": done,
            "failed": [],
            "running": running,
            "left": 60.0 if planned else None,
        }

    opened = web.listening_socket("127.0.0.1", 0)
    live = LivePage(lambda: load_runs(below), progress)
    config = uvicorn.Config(
        watch_server.application(live), log_level="warning", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    live.is_ending = lambda: server.should_exit
    live.start()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()

    def stop():
        server.should_exit = True
        thread.join()
        live.stop()
        opened.close()

    try:
        yield web.address(opened), stop
    finally:
        stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(live_page, "LOOK", 0.05)
    monkeypatch.setattr(live_page, "SHARE", 0)
    monkeypatch.setattr(live_page, "LEAST", 0.0)
    monkeypatch.setattr(watch_server, "TICK", 0.05)


def test_it_follows_from_the_first_run_to_the_last(watched, tmp_path):
    with serving(tmp_path, planned=2) as (address, _):
        tab = watched().tab
        tab.goto(address)
        tab.wait_for_selector("text=0 of 2 runs done · 1 running · about 60 s left")
        assert not tab.locator("#curves-body").is_visible()
        put(run_of(100, "perfect", 1), tmp_path)
        tab.wait_for_selector("figure.chart canvas")
        tab.wait_for_selector("text=1 of 2 runs done")
        tab.click("#live-running summary")
        assert tab.inner_text("#live-running li") == "next-run: round 7 of 40"
        put(run_of(100, "perfect", 2), tmp_path)
        tab.wait_for_selector("text=The sweep is over: 2 of 2 runs done")
        expect(tab.locator(".stats b").first).to_have_text("2")
        assert tab.get_attribute("#live", "data-state") == "over"


def test_a_folder_without_a_sweep(watched, tmp_path):
    put(run_of(100, "perfect", 1), tmp_path)
    with serving(tmp_path, planned=0) as (address, _):
        tab = watched().tab
        tab.goto(address)
        tab.wait_for_selector("text=No sweep is planned here; 1 run so far")
        put(run_of(100, "perfect", 2), tmp_path)
        tab.wait_for_selector("text=No sweep is planned here; 2 runs so far")
        assert not tab.locator("#live-bar").is_visible()


def test_a_run_that_finishes_while_the_page_fetches_is_shown(watched, tmp_path):
    """The answer to the page's first request is held back until the page knows of a newer one."""
    put(run_of(100, "perfect", 1), tmp_path)
    held = []

    def hold_the_first(route):
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    with serving(tmp_path, planned=0) as (address, _):
        tab = watched().tab
        tab.route("**/content", hold_the_first)
        tab.goto(address)
        tab.wait_for_selector("text=No sweep is planned here; 1 run so far")
        while not held:
            tab.wait_for_timeout(20)
        route, old = held[0]
        put(run_of(100, "perfect", 2), tmp_path)
        tab.wait_for_function("old => latest.version !== old", arg=old.json()["version"])
        route.fulfill(response=old)
        tab.wait_for_selector("text=No sweep is planned here; 2 runs so far", timeout=10_000)
        assert tab.evaluate("latest.version") != old.json()["version"]


def test_an_update_keeps_what_the_reader_does(watched, tmp_path):
    for clients in (100, 10):
        for kind in ("perfect", "informational"):
            for seed in (1, 2):
                put(run_of(clients, kind, seed), tmp_path)
    with serving(tmp_path, planned=20) as (address, _):
        tab = watched(viewport={"width": 1000, "height": 500}).tab
        tab.goto(address)
        tab.wait_for_selector("figure.chart canvas")
        tab.click("#curve-tabs [role=tab]:nth-child(2)")
        tab.check("input[value=log]", force=True)
        tab.locator("#smoothing input").fill("1")
        tab.locator('.chip[data-label="clients=100"]').click()
        tab.click("#tab-1")
        tab.locator("#panel-1 .sort").nth(1).click()
        colour = tab.locator('.chip[data-label="clients=100"] .s').get_attribute("class")
        tab.click('#panel-1 .cell[data-at="0.0"]')
        dialog = tab.locator("dialog[open]")
        assert dialog.locator(".commands li").count() == 2
        tab.locator(".d-body").evaluate("body => { body.scrollTop = 60; }")
        at = tab.evaluate("scrollY")
        put(run_of(1, "perfect", 1), tmp_path)  # a method that is sorted before the others
        put(
            run_of(int(tab.inner_text("#evidence-title").partition("=")[2]), "perfect", 3),
            tmp_path,
        )
        dialog.locator(".commands li").nth(2).wait_for(state="attached")
        tab.wait_for_selector('.chip[data-label="clients=1"]', state="attached")
        assert (
            tab.evaluate("scrollY") == at
            and tab.locator(".d-body").evaluate("body => body.scrollTop") == 60
        )
        tab.keyboard.press("Escape")
        assert tab.get_attribute('.chip[data-label="clients=100"]', "aria-pressed") == "false"
        assert tab.locator('.chip[data-label="clients=100"] .s').get_attribute("class") == colour
        assert tab.locator("#curve-tabs [aria-selected=true]").inner_text() == "online nDCG@10"
        assert (
            tab.is_checked("input[value=log]")
            and tab.inner_text("#smoothing output") == "5 rounds"
        )
        assert tab.locator("#matrix [aria-selected=true]").get_attribute("id") == "tab-1"
        assert tab.locator("#panel-1 thead th").nth(2).get_attribute("aria-sort") == "descending"


def test_focus_stays_where_it_was(watched, tmp_path):
    put(run_of(100, "perfect", 1), tmp_path)
    with serving(tmp_path, planned=3) as (address, _):
        tab = watched().tab
        tab.goto(address)
        tab.wait_for_selector("figure.chart canvas")
        tab.focus('#panel-0 .cell[data-at="0.0"]')
        put(run_of(100, "perfect", 2), tmp_path)
        expect(tab.locator(".stats b").first).to_have_text("2")
        assert tab.evaluate("document.activeElement.dataset.at") == "0.0"


def test_it_says_when_the_server_has_gone(watched, tmp_path):
    put(run_of(100, "perfect", 1), tmp_path)
    with serving(tmp_path, planned=2) as (address, stop):
        each = watched()
        each.tab.goto(address)
        each.tab.wait_for_selector("figure.chart canvas")
        stop()
        each.tab.wait_for_selector("text=The server does not answer")
        assert each.tab.locator("figure.chart canvas").is_visible()
        each.complaints.clear()  # the browser itself complains of the lost connection
        each.tab.goto("about:blank")
