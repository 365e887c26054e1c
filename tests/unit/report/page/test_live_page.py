"""The live page: when it is made again, and what it shows meanwhile."""

import json
from dataclasses import replace

import pytest
from watched_folder import Folder, live_page_of

from foltr.core.errors import Mistake
from foltr.report.page import live_page
from foltr.report.page.live_page import LivePage
from foltr.report.results import Runs
from waiting import wait_until


def test_runs_are_read_only_when_one_has_finished(never_resting):
    folder = Folder(done=2)
    each = live_page_of(folder)
    for _ in range(5):
        each.refresh()
    assert folder.loads == 1 and "2 runs finished" in each.content_json()
    first = each.version
    folder.done = 3
    each.refresh()
    assert folder.loads == 2 and each.version != first and "3 runs finished" in each.content_json()


def test_a_folder_without_a_plan_is_read_now_and_then(never_resting):
    folder = Folder(done=1, planned=0)
    each = LivePage(folder.load, lambda: {"planned": 0, "done": 0})
    each.refresh()
    first = each.version
    each.refresh()
    assert folder.loads == 2 and each.version == first  # nothing new, so nothing is sent
    folder.done = 2
    each.refresh()
    assert (
        each.version != first
        and "2 runs finished" in each.content_json()
        and not each.progress_now()["over"]
    )


def test_reading_is_rarer_the_longer_it_takes(monkeypatch):
    # it takes 2 s, so it rests for 20 s
    clock = iter([100.0, 100.0, 102.0, 102.0, 110.0, 122.5, 122.5, 122.5, 122.5])
    monkeypatch.setattr(live_page.time, "monotonic", lambda: next(clock))
    folder = Folder(done=1)
    each = live_page_of(folder)
    each.refresh()
    folder.done = 2
    each.refresh()  # at 110
    assert folder.loads == 1
    each.refresh()  # at 122.5
    assert folder.loads == 2


def test_it_waits_for_a_sweep_that_has_not_begun(never_resting):
    folder, awaited = Folder(done=0, planned=0), ["Waiting for a sweep: runs does not exist yet."]
    each = LivePage(folder.load, lambda: {}, waits_for=lambda: awaited[0])
    each.refresh()
    now = each.progress_now()
    assert awaited[0] in each.page() and not now["over"] and not now["trouble"]
    awaited[0] = ""
    each.refresh()
    assert "No run has finished yet." in each.page()


def test_before_the_first_run():
    folder = Folder(done=0)
    each = live_page_of(folder)
    assert "Reading the runs" in each.page()
    each.refresh()
    told = json.loads(each.content_json())
    assert told["data"] is None and "No run has finished yet" in told["sections"]["head"]
    assert each.progress_now()["planned"] == 4 and not each.progress_now()["over"]


def test_trouble_is_reported_and_forgotten_and_costs_nothing_that_was_shown(never_resting):
    folder = Folder(done=2)
    each = live_page_of(folder)
    each.refresh()
    before = each.content_json()
    folder.done, folder.trouble = 3, Mistake("two runs have the same config")
    each.refresh()
    assert (
        each.progress_now()["trouble"] == "two runs have the same config"
        and each.content_json() == before
    )
    folder.trouble = None
    each.refresh()
    assert each.progress_now()["trouble"] == "" and "3 runs finished" in each.content_json()


def test_progress_that_cannot_be_read_now_is_reported(never_resting):
    folder = Folder(done=2)
    each = live_page_of(folder)
    each.refresh()

    def unreadable():
        raise OSError("the disk is away")

    each.progress = unreadable
    each.refresh()
    assert (
        each.progress_now()["trouble"] == "the disk is away" and each.progress_now()["done"] == 2
    )
    each.progress = folder.progress
    each.refresh()
    assert each.progress_now()["trouble"] == ""


def test_it_is_over_when_all_are_done_or_failed_and_shown(never_resting):
    folder = Folder(done=3)
    each = live_page_of(folder)
    each.refresh()
    assert not each.progress_now()["over"]
    folder.done, folder.planned, folder.failed = 4, 5, [{"run": "r5", "error": "it broke"}]
    each.refresh()
    assert not each.progress_now()["over"]  # one is said to run
    folder.planned = 4
    folder.failed = []
    each.refresh()
    assert each.progress_now()["over"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_our_own_is_not_silent():
    folder = Folder(done=1)
    folder.trouble = KeyError("a bug")
    each = live_page_of(folder)
    each.start()
    each._thread.join()
    assert "an internal error" in each.progress_now()["trouble"]


def test_it_looks_until_it_is_stopped(never_resting, monkeypatch):
    monkeypatch.setattr(live_page, "LOOK", 0.001)
    folder = Folder(done=1)
    each = live_page_of(folder)
    each.start()
    wait_until(lambda: "1 run finished" in each.content_json())
    folder.done = 2
    wait_until(lambda: "2 runs finished" in each.content_json())
    each.stop()
    each._thread.join()
    assert each.progress_now()["trouble"] == "" and folder.loads == 2


def test_two_servers_have_no_version_in_common():
    assert live_page_of(Folder()).version != live_page_of(Folder()).version


def test_the_page_that_lives_may_ask_its_own_server_only(never_resting):
    each = live_page_of(Folder(done=2))
    each.refresh()
    assert "connect-src 'self'" in each.page() and 'data-source="live"' in each.page()


def test_skipped_runs_are_on_the_live_page(never_resting):
    folder = Folder(done=1)
    whole = folder.load()
    each = LivePage(lambda: replace(whole, planned=9), folder.progress)
    each.refresh()
    assert isinstance(whole, Runs) and "1 run of 9 planned" in each.content_json()
