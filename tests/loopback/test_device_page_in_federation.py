"""The page of a device in a federation, in a real browser: its user searches and clicks, the
device sends, the ranking changes; then the user pauses, and leaves. Nothing asks another place."""

import shutil
import threading

import numpy as np
import playwright.sync_api as playwright
import pytest
from device_processes import PageProcess
from own_devices import SESSIONS, Person, begin, federation

from foltr.deployment.protocol.agreement import Agreement

pytestmark = pytest.mark.loopback

program = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


def titles_for(tab, text):
    """Search as a user does. Returns the titles of the results."""
    with tab.expect_response(lambda answer: answer.url.endswith("&typing=0")):
        tab.fill("#query", text)
        tab.press("#query", "Enter")
    with tab.expect_response(lambda answer: "/api/" in answer.url):
        tab.wait_for_timeout(50)
        tab.evaluate("fetch('/api/none')")  # an answer after those of the page
    return tab.locator("#results .title").all_inner_texts()


def open_result(tab, place):
    with tab.expect_response(lambda answer: answer.url.endswith("/api/open")):
        tab.click(f"#results .title >> nth={place}")
    tab.keyboard.press("Escape")


@pytest.mark.skipif(program is None, reason="no browser")
def test_search_click_send_pause_and_leave(tmp_path):
    with federation(tmp_path / "federation", 2) as here:
        begin(here)
        person, other = (Person(here, number).join() for number in range(2))
        before = person.running.service.ranker.weights.copy()
        with (
            PageProcess(person.home, "--no-guard") as page,
            playwright.sync_playwright() as driver,
        ):
            browser = driver.chromium.launch(executable_path=program, args=list(QUIET))
            tab, requests = browser.new_page(), []
            tab.on("request", lambda request: requests.append(request.url))
            tab.goto(page.address)
            first = titles_for(tab, "apple pear")
            for number in range(SESSIONS):  # the user wants what is low in the list
                titles_for(tab, "apple pear" + "!" * number)
                open_result(tab, 6)
            titles_for(tab, "plum")  # the last search is learned from when another begins
            other.search(SESSIONS)
            threading.Thread(target=other.answer, daemon=True).start()
            here.wait_round(1)
            tab.click("#panel-button")
            tab.click("#tab-learned")
            tab.wait_for_selector("#panel-learned >> text=of round 1", timeout=120_000)
            assert titles_for(tab, "apple pear") != first
            check_message(tab, person, before)
            check_pause(tab, page)
            tab.click("#leave-row button")
            tab.click("#question .button.danger")
            tab.wait_for_selector("#leave-row", state="hidden")
            tab.click("#tab-leaving")
            tab.wait_for_selector("#panel-leaving >> text=This device learns alone.")
            own = page.address.partition("#")[0]
            assert [url for url in requests if not url.startswith((own, "data:"))] == []
            browser.close()
        assert person.home.federation.joined is None
        assert person.run().running.membership is None


def check_message(tab, person, before):
    """The numbers on the page are those that were sent."""
    tab.click("#tab-leaving")
    cells = tab.locator("#panel-leaving table td").all_inner_texts()
    shown = np.array([float(cell.replace("\N{MINUS SIGN}", "-")) for cell in cells], np.float32)
    agreed = Agreement.from_text(person.home.federation.joined["agreement"])
    records = person.home.federation.records(agreed)
    (record,) = records.of([person.running.membership.client]).values()
    records.close()
    assert np.array_equal(shown, record.payload) and len(shown) == len(before)
    assert np.abs(shown).max() > 0.0


def check_pause(tab, page):
    tab.click("#tab-yours")
    tab.click("#learns")
    tab.wait_for_selector("#learning:has-text('paused')")
    made = page.ask("GET", "status")["model"]["searches"]
    titles_for(tab, "cherry")
    open_result(tab, 1)
    assert page.ask("GET", "status")["model"]["searches"] == made
