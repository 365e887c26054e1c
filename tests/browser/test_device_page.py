"""The page of `foltr device search` in a real browser, served by the real process: what its user
sees and does, what pages of others and hostile documents can do (nothing), and how it ends."""

import json
import os
import re
import shutil
import subprocess

import pytest
from device_pages import (
    ATTACK,
    OLDEST,
    TOPICS,
    WIDE,
    DeviceTab,
    RunningDevice,
    other_site,
    run_device,
    running_device,
    write_document,
    write_documents,
)
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def indexed_folder(tmp_path_factory, chromium):
    """The folder of a device whose index has the documents."""
    folder = tmp_path_factory.mktemp("device")
    made, documents = folder / "device", folder / "documents"
    made.mkdir()
    write_documents(documents)
    told = run_device(made, "index", documents)
    assert told.startswith("39 documents in")
    return made


@pytest.fixture
def copied_folder(indexed_folder, tmp_path):
    """A copy of it, for a test that needs a process of its own."""
    made = tmp_path / "device"
    made.mkdir()
    shutil.copy(indexed_folder / "index.db", made)
    return made


@pytest.fixture(scope="module")
def served_device(tmp_path_factory, indexed_folder):
    made = tmp_path_factory.mktemp("shared")
    shutil.copy(indexed_folder / "index.db", made)
    with running_device(made) as running:
        yield running


@pytest.fixture
def device_page(watched, served_device):
    """A tab with the page. What was recorded before is deleted."""
    made = DeviceTab(watched, served_device)
    made.tab.evaluate(
        "(token) => Promise.all(['clear', 'pause'].map((name) => fetch(`/api/${name}`, {method:"
        " 'POST', body: '{\"paused\": false}', headers: {'X-Foltr-Token': token}})))",
        served_device.token,
    )
    yield made
    made.check_clean()


def wait_until_recorded(device_page, name="look"):
    return device_page.tab.expect_response(lambda answer: answer.url.endswith(f"/api/{name}"))


def focused_place(tab):
    """The place of the result that has the focus; -1 for none."""
    return tab.evaluate(
        "[...document.querySelectorAll('#results > li')]"
        ".indexOf(document.activeElement.closest('#results > li'))"
    )


def is_in_view(tab, selector, inside):
    """Whether an element can be seen in the scrolled element `inside`."""
    box, room = tab.locator(selector).bounding_box(), tab.locator(inside).bounding_box()
    return room["y"] <= box["y"] and box["y"] + box["height"] <= room["y"] + room["height"]


# ---- searching


def test_results_appear_while_typing_and_only_the_last_list_is_recorded(
    device_page, served_device
):
    expect(device_page.tab.locator("#query")).to_be_focused()
    device_page.tab.keyboard.type("garden jour", delay=80)
    expect(device_page.tab.locator("#results .title")).to_have_count(10)
    device_page.settled()
    asked = [url for url in device_page.requests if "/api/search" in url]
    assert len(asked) >= 3 and served_device.searches() == []
    expect(device_page.tab.locator("#state span")).to_have_text("The best 10 of 36 found")
    with wait_until_recorded(device_page):
        device_page.tab.keyboard.type("nal")
        device_page.tab.keyboard.press("Enter")
    device_page.tab.keyboard.press("Enter")
    device_page.settled()
    assert served_device.searches() == [("garden journal", [])]
    assert device_page.titles()[0] == f"Note {OLDEST} about garden"
    assert "garden" in device_page.tab.locator("#results .snippet mark").first.inner_text()


def test_a_list_that_stays_is_recorded_without_enter(device_page, served_device):
    with wait_until_recorded(device_page):
        device_page.tab.fill("#query", "tax")
    assert served_device.searches() == [("tax", [])]


def test_the_keyboard_moves_between_results_and_opens_a_preview(device_page, served_device):
    device_page.search("kernel journal")
    tab = device_page.tab
    tab.keyboard.press("ArrowDown")
    assert focused_place(tab) == 0
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("j")
    tab.keyboard.press("k")
    assert focused_place(tab) == 1
    second = device_page.titles()[1]
    tab.keyboard.press("Enter")
    expect(tab.locator("#preview-title")).to_have_text(second)
    expect(tab.locator("#preview mark.here")).to_have_text("kernel")
    first = tab.inner_text("#mark-count")
    tab.keyboard.press("n")
    assert (first[:4], tab.inner_text("#mark-count")[:4]) == ("1 of", "2 of")
    tab.keyboard.press("Escape")
    expect(tab.locator("#preview")).to_be_hidden()
    assert focused_place(tab) == 1
    tab.keyboard.press("Escape")
    expect(tab.locator("#query")).to_be_focused()
    assert served_device.searches() == [("kernel journal", [second])]


def test_the_preview_shows_a_mark_that_is_far_down(device_page):
    device_page.search("needle")
    device_page.tab.click("#results .title >> nth=0")
    here = device_page.tab.locator("#preview mark.here")
    expect(here).to_have_text("needle")
    assert device_page.tab.evaluate("document.querySelector('.d-body').scrollTop") > 500
    assert is_in_view(device_page.tab, "#preview mark.here", "#preview .d-body")
    device_page.tab.keyboard.press("n")
    expect(device_page.tab.locator("#mark-count")).to_have_text("2 of 2")
    assert is_in_view(device_page.tab, "#preview mark.here", "#preview .d-body")


def test_a_result_is_opened_by_mouse_and_with_its_own_program(device_page, served_device):
    device_page.search("rental contract")
    device_page.tab.click("#results .snippet >> nth=0")
    expect(device_page.tab.locator("#preview-title")).to_have_text("The web page")
    device_page.tab.click("#preview .main")
    expect(device_page.tab.locator("#preview-said")).to_have_text("Opened with its own program.")
    device_page.tab.click("#preview .icon >> nth=0")
    device_page.tab.hover("#results li >> nth=0")
    with wait_until_recorded(device_page, "open"):
        device_page.tab.click("#results .own >> nth=0")
    path = device_page.tab.get_attribute("#results .path >> nth=0", "title")
    expect_lines(served_device.opened, [path, path])
    served_device.opened.unlink()
    assert served_device.searches() == [("rental contract", ["The web page"])]


def expect_lines(file, lines):
    """Wait until another program has written these lines."""
    found = subprocess.run(
        [
            "timeout",
            "10",
            "sh",
            "-c",
            f'until [ "$(wc -l < "{file}")" -ge {len(lines)} ]; do :; done',
        ],
        stderr=subprocess.DEVNULL,
    )
    assert found.returncode == 0 and file.read_text().splitlines() == lines


def test_a_program_is_not_opened_and_the_page_says_why(device_page, served_device):
    device_page.search("scheduler")
    path = device_page.tab.get_attribute("#results .path >> nth=0", "title")
    os.chmod(path, 0o755)
    device_page.watched.complaints.clear()
    device_page.tab.keyboard.press("Control+Enter")
    expect(device_page.tab.locator("#state")).to_contain_text("is a program")
    os.chmod(path, 0o644)
    assert not served_device.opened.exists()
    device_page.watched.complaints.clear()  # the browser itself notes the refusal


# ---- nothing found, filters


def test_nothing_found_offers_a_word_that_is_similar(device_page):
    assert device_page.search("gardne journal zzzqqq type:pdf") == []
    empty = device_page.tab.locator("#empty")
    expect(empty).to_contain_text("No document has the word gardne")
    expect(empty).to_contain_text("No document has the word zzzqqq. Look at its spelling")
    device_page.search("gardne")
    device_page.tab.click("#empty button:has-text('garden')")
    expect(device_page.tab.locator("#query")).to_have_value("garden")
    expect(device_page.tab.locator("#results .title").first).to_have_text(
        f"Note {OLDEST} about garden"
    )


def test_nothing_found_offers_a_search_without_filters(device_page):
    device_page.search("tax type:pdf")
    expect(device_page.tab.locator("#empty")).to_contain_text("Without type:pdf: 6 documents.")
    device_page.tab.click("text=Show them")
    expect(device_page.tab.locator("#query")).to_have_value("tax")
    expect(device_page.tab.locator("#results .title")).to_have_count(6)


def test_the_menus_write_filters_into_the_query(device_page):
    device_page.search("journal")
    names = device_page.tab.locator("#only-folder option").all_inner_texts()
    assert names[0] == "All folders" and "garden (6)" in names and "code (1)" in names
    device_page.tab.select_option("#only-folder", "music")
    expect(device_page.tab.locator("#query")).to_have_value("journal folder:music")
    expect(device_page.tab.locator("#state span")).to_have_text("6 documents")
    device_page.tab.select_option("#only-folder", "")
    device_page.tab.select_option("#only-type", "html")
    expect(device_page.tab.locator("#empty")).to_contain_text("Without type:html")
    device_page.search("journal type:pfd")
    expect(device_page.tab.locator("#state")).to_contain_text("did you mean 'pdf'?")
    assert len(device_page.titles()) == 10
    device_page.search("tax after:2023-01 before:2025")
    expect(device_page.tab.locator("#results .title")).to_have_count(3)


def test_filters_alone_list_the_newest_documents_which_can_be_opened(device_page, served_device):
    assert device_page.search("folder:travel") == [
        f"Note {n} about travel" for n in range(OLDEST + 1)
    ]
    expect(device_page.tab.locator("#state small")).to_contain_text("newest first")
    assert "The travel journal" in device_page.tab.inner_text("#results .snippet >> nth=0")
    device_page.tab.keyboard.press("ArrowDown")
    device_page.tab.keyboard.press("Enter")
    expect(device_page.tab.locator("#preview .text")).to_contain_text("Note 0 about travel")
    device_page.tab.keyboard.press("Escape")
    device_page.tab.keyboard.press("p")
    expect(device_page.tab.locator("#panel-order")).to_contain_text(
        "the newest documents come first"
    )
    device_page.tab.wait_for_timeout(1700)  # a list of words would be recorded now
    assert served_device.searches() == []


# ---- the panel


def test_the_panel_shows_the_list_of_bm25_and_the_parts_of_a_score(device_page):
    titles = device_page.search("recipe journal")
    device_page.tab.keyboard.press("ArrowDown")
    device_page.tab.keyboard.press("p")
    expect(device_page.tab.locator("#why .which")).to_have_text(titles[0])
    plain = device_page.tab.locator(".order ol >> nth=0").locator(".name").all_inner_texts()
    assert plain[:6] == [f"Note {n} about recipe" for n in range(OLDEST, -1, -1)]
    shown = device_page.tab.locator(".order ol >> nth=1").locator(".name").all_inner_texts()
    assert shown == titles
    assert device_page.tab.locator(".order svg path").count() == len(titles)
    rows = device_page.tab.locator("#why .parts li:visible")
    assert 1 <= rows.count() <= 8
    device_page.tab.click("text=Show all 38")
    assert rows.count() == 38
    told = device_page.tab.locator("#why .parts b").all_inner_texts()
    score = float(re.search(r"score is ([\d.]+)", device_page.tab.inner_text("#why")[:200])[1])
    parts = [float(each.replace("\N{MINUS SIGN}", "-")) for each in told]
    assert sum(parts) == pytest.approx(score, abs=0.2)
    device_page.tab.focus("#results .title >> nth=0")
    device_page.tab.keyboard.press("ArrowDown")
    expect(device_page.tab.locator("#why .which")).to_have_text(titles[1])
    device_page.tab.click(".order button >> nth=2")
    expect(device_page.tab.locator("#why .which")).to_have_text(titles[2])


def test_the_panel_shows_numbers_and_what_leaves_the_device(device_page):
    device_page.search("music")
    device_page.tab.click("#panel-button")
    device_page.tab.click("#tab-learned")
    facts = device_page.tab.locator("#panel-learned")
    expect(facts).to_contain_text("Nothing is learned yet")
    expect(facts.locator("dl").first).to_contain_text(re.compile(r"Recorded searches\s*1"))
    expect(facts.locator("dl").last).to_contain_text(re.compile(r"Documents\s*39"))
    device_page.tab.click("#tab-leaving")
    leaving = device_page.tab.locator("#panel-leaving")
    expect(leaving).to_contain_text("Nothing. This device learns alone.")
    assert leaving.locator(".kept li").count() == 4
    device_page.tab.reload()
    expect(leaving).to_contain_text("Nothing. This device learns alone.")  # still open there


def test_clicks_change_the_order_and_the_panel_shows_how(watched, copied_folder):
    """The user opens the newest document of each topic, which BM25 puts last."""
    with running_device(copied_folder, "--no-guard") as running:
        device_page = DeviceTab(watched, running)
        newest = "Note 0 about music"
        before = device_page.search("music journal").index(newest)
        assert before == OLDEST
        for topic in TOPICS[:5] * 3:
            place = device_page.search(f"{topic} journal").index(f"Note 0 about {topic}")
            device_page.tab.click(f"#results .title >> nth={place}")
            device_page.tab.wait_for_selector("#preview mark.here")
            device_page.tab.keyboard.press("Escape")
        titles = device_page.search("music journal")
        assert titles.index(newest) < before
        device_page.tab.click("#panel-button")
        moved = device_page.tab.locator(f".order ol >> nth=1 >> li:has-text('{newest}') .move.up")
        expect(moved).to_have_text(f"▲{before - titles.index(newest)}")
        device_page.check_clean()
    with running_device(copied_folder) as running:  # with the guard
        device_page = DeviceTab(watched, running)
        device_page.search("music journal")
        expect(device_page.tab.locator("#state small")).to_contain_text("mixed order")
        device_page.tab.click("#panel-button")
        expect(device_page.tab.locator("#panel-order")).to_contain_text("mixes the learned order")
        teams = device_page.tab.locator(".order ol .team")
        marks = [each.get_attribute("data-team") for each in teams.all()]
        assert {"1", "2"} <= set(marks)
        device_page.check_clean()


# ---- the user's data


def test_while_paused_nothing_is_recorded(device_page, served_device):
    device_page.tab.click("#learning")
    device_page.tab.click("#learns")
    expect(device_page.tab.locator("#learning")).to_have_text("Learning is paused")
    device_page.search("garden")
    device_page.tab.click("#results .title >> nth=0")
    device_page.tab.wait_for_selector("#preview mark.here")
    device_page.tab.keyboard.press("Escape")
    assert served_device.searches() == []
    device_page.tab.click("#learns")
    expect(device_page.tab.locator("#learning")).to_have_text("Learning")
    device_page.search("tax")
    assert served_device.searches() == [("tax", [])]


def open_history(device_page):
    device_page.tab.click("#panel-button")
    device_page.tab.click("#tab-yours")
    device_page.tab.click("#history summary")
    return device_page.tab.locator("#history li")


def test_a_recorded_search_can_be_forgotten(device_page, served_device):
    for topic in ("garden", "tax", "music"):
        device_page.search(topic)
    rows = open_history(device_page)
    expect(rows).to_have_count(3)
    assert rows.locator(".query").all_inner_texts() == ["music", "tax", "garden"]
    device_page.tab.click("#history li:has-text('tax') .small")
    expect(rows).to_have_count(2)
    expect(device_page.tab.locator("#yours-said")).to_have_text("Forgotten.")
    assert served_device.searches() == [("garden", []), ("music", [])]


def test_forgetting_the_shown_list_does_not_record_it_again_and_it_can_be_opened(
    device_page, served_device
):
    device_page.search("music")
    rows = open_history(device_page)
    with device_page.tab.expect_response(lambda answer: "/api/search" in answer.url):
        device_page.tab.click("#history li .small")
    expect(rows).to_have_count(0)
    device_page.tab.wait_for_timeout(1700)  # a list that was made by typing would be recorded now
    assert served_device.searches() == []
    device_page.tab.click("#results .title >> nth=0")
    expect(device_page.tab.locator("#preview mark.here")).to_have_text("music")
    assert [query for query, _ in served_device.searches()] == ["music"]


def test_everything_can_be_saved_and_deleted(device_page, served_device):
    device_page.search("garden")
    device_page.search("tax")
    open_history(device_page)
    with device_page.tab.expect_download() as download:
        device_page.tab.click(".acts .button:has-text('Save')")
    assert download.value.suggested_filename == "foltr-searches.json"
    saved = json.loads(open(download.value.path(), "rb").read())
    assert [each["query"] for each in saved] == ["garden", "tax"]
    device_page.tab.click(".acts .button:has-text('Delete')")
    expect(device_page.tab.locator("#question .button >> nth=0")).to_be_focused()
    device_page.tab.keyboard.press("Escape")
    assert len(served_device.searches()) == 2
    device_page.tab.click(".acts .button:has-text('Delete')")
    expect(device_page.tab.locator("#question")).to_contain_text("all 2 recorded searches")
    device_page.tab.click("#question .danger")
    expect(device_page.tab.locator("#yours-said")).to_contain_text("is deleted")
    assert served_device.searches() == []


# ---- its address and its look


def test_the_token_leaves_the_address_bar_and_the_tab_keeps_it(
    device_page, served_device, watched
):
    assert device_page.tab.url == served_device.page
    assert device_page.tab.evaluate("history.length") <= 2
    device_page.tab.reload()
    expect(device_page.tab.locator("#amount")).to_have_text("39 documents on this device")
    assert device_page.search("tax")
    kept = device_page.tab.evaluate("JSON.stringify([document.cookie, localStorage])")
    assert json.loads(kept) == ["", {"foltr-section": "order"}]


def test_without_the_token_the_page_explains_itself(watched, served_device):
    each = watched()
    each.tab.goto(served_device.page)
    expect(each.tab.locator("#notice")).to_contain_text("This page needs its whole address")
    expect(each.tab.locator("#query")).to_be_hidden()
    each.tab.goto(served_device.page + "#wrong")
    expect(each.tab.locator("#state")).to_contain_text("open the address that it printed")
    each.complaints.clear()  # the browser itself notes the refusal
    each.tab.goto(served_device.address)
    expect(each.tab.locator("#amount")).to_have_text("39 documents on this device")


LOOKS = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"viewport": {"width": 390, "height": 844}},
    {"viewport": {"width": 320, "height": 568}, "color_scheme": "dark"},
]


@pytest.mark.parametrize("how", LOOKS, ids=["light", "dark", "phone", "small"])
def test_nothing_is_wider_than_the_page(watched, served_device, how):
    device_page = DeviceTab(watched, served_device, **how)
    tab = device_page.tab
    assert tab.evaluate(WIDE) == 0
    device_page.search("garden journal " + "w" * 60)
    assert tab.evaluate(WIDE) == 0
    tab.click("#results .title >> nth=0")
    tab.wait_for_selector("#preview mark.here")
    assert tab.evaluate(WIDE) == 0
    tab.keyboard.press("Escape")
    tab.click("#panel-button")
    for section in ("order", "learned", "leaving", "yours"):
        tab.click(f"#tab-{section}")
        tab.wait_for_selector(f"#panel-{section} h3")
        device_page.settled()
        assert tab.evaluate(WIDE) == 0, section
        room = tab.locator(f"#panel-{section}")
        assert room.evaluate("(e) => e.scrollWidth - e.clientWidth") == 0, section
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 22)"
    assert dark == (how.get("color_scheme") == "dark")
    device_page.check_clean()


# ---- pages of others


# what protects this machine in a new browser, but not in each: the device must do without
OF_THE_BROWSER = (
    "LocalNetworkAccessChecks",
    "LocalNetworkAccessChecksWarn",
    "BlockInsecurePrivateNetworkRequests",
    "PrivateNetworkAccessRespectPreflightResults",
)


@pytest.fixture(scope="module")
def tricked(chromium):
    """A browser in which a name of somebody else leads to this machine."""
    browser = chromium.browser_type.launch(
        executable_path=shutil.which("chromium") or shutil.which("chromium-browser"),
        args=[
            "--no-sandbox",
            "--disable-gpu",
            "--host-resolver-rules=MAP rebound.example 127.0.0.1",
            f"--disable-features={','.join(OF_THE_BROWSER)}",
        ],
    )
    yield browser
    browser.close()


def attacked_device(browser, device_page, target, token):
    """What a page of others gets, for a word that documents have and for one that none has."""
    context = browser.new_context()
    try:
        tab = context.new_page()
        if device_page.startswith(target):  # the address is the device's own: DNS rebinding
            body = "<!doctype html><title>evil</title><body>"
            context.route(
                device_page, lambda route: route.fulfill(body=body, content_type="text/html")
            )
        outcomes = []
        for word in ("garden", "zzzqqq"):
            tab.goto(device_page)
            outcomes.append(tab.evaluate(ATTACK, [target, token, word]))
        return outcomes
    finally:
        context.close()


def test_the_attack_works_on_a_server_that_lets_it(tricked):
    with other_site() as (port, _), other_site() as (victim, noted):
        target = f"http://127.0.0.1:{victim}"
        found, _ = attacked_device(tricked, f"http://localhost:{port}/", target, "")
    assert "an open secret" in found["cors /api/status"]
    assert "an open secret" in found["xhr /api/status"]
    assert found["no-cors /api/status"].startswith("opaque") and found["iframe"] == "hidden 0"
    for order in ("pause", "clear", "forget", "look", "open"):
        assert noted.count(f"POST /api/{order}") >= 4  # by fetch twice, beacon and form
    assert any(line == "GET /" for line in noted)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "rebound.example"])
def test_a_page_at_another_port_gets_and_does_nothing(device_page, served_device, tricked, name):
    """Without the token, and with a stolen one."""
    device_page.search("garden")
    before = served_device.searches()
    harmless = {"refused", "failed", "nothing", "hidden", "hidden 0", "0 "}
    with other_site() as (port, _):
        site, target = f"http://{name}:{port}/", served_device.page.rstrip("/")
        for token in ("", served_device.token):
            known, unknown = attacked_device(tricked, site, target, token)
            sizes = json.loads(known.pop("sizes")) + json.loads(unknown.pop("sizes"))
            assert all(each == [0, 0, 0] for each in sizes)
            got = {k: v for k, v in known.items() if not k.startswith("beacon")}
            assert set(got.values()) <= harmless, got
            assert known == with_word(unknown)
            nothing_was_done(device_page, served_device, before)


@pytest.mark.parametrize("name", ["localhost", "rebound.example"])
def test_another_name_of_this_machine_gets_and_does_nothing(
    device_page, served_device, tricked, name
):
    """The page of others has the very port of the device, and a stolen token."""
    device_page.search("garden")
    before = served_device.searches()
    target = f"http://{name}:{served_device.where.partition(':')[2]}"
    known, unknown = attacked_device(tricked, f"{target}/attack", target, served_device.token)
    assert "421 open the address that the command printed" in known["same-origin /api/status"]
    assert all("arden" not in value for value in known.values())
    del known["sizes"], unknown["sizes"]
    assert known == with_word(unknown)
    assert all(value.startswith("421") for key, value in known.items() if key.startswith("post"))
    nothing_was_done(device_page, served_device, before)


def with_word(outcomes):
    """Outcomes for a word that no document has, named as those for the other word."""
    return {name.replace("zzzqqq", "garden"): value for name, value in outcomes.items()}


def nothing_was_done(device_page, served_device, before):
    device_page.tab.reload()
    expect(device_page.tab.locator("#learning")).to_have_text("Learning")  # not paused
    assert served_device.searches() == before != []
    assert not served_device.opened.exists()


# ---- hostile documents


BAD = "window.__pwned=1"
HOSTILE = {
    "heading.md": f"# <script>{BAD}</script> wordheading\n\n<img src=x onerror='{BAD}'>",
    "link.md": f"# wordlink [title](javascript:{BAD})\n\n[wordlink](javascript:{BAD})",
    "title.html": f"<title>&lt;img src=x onerror={BAD}&gt; wordtitle</title><p>wordtitle"
    f" &lt;script&gt;{BAD}&lt;/script&gt;<svg onload={BAD}><iframe src=//evil.example></iframe>",
    "quotes.txt": f"\"'><script>{BAD}</script><!-- wordquotes --> ]]> {{{{1+1}}}} ${{alert(1)}}",
    "turned.md": "# wordturned \u202egnp.exe\u202c \u2066\u200f end\n\nwordturned \u202etfel",
    "nulls.txt": b"wordnulls \x00 and \x00 more text " + b"of an ordinary kind. " * 50,
    "broken.txt": b"wordbroken \xff\xfe\x80 caf\xe9 \xc3\x28 \xed\xa0\x80 " + b"text " * 50,
    "sixteen.txt": "wordsixteen in another encoding".encode("utf-16"),
    "controls.txt": "wordcontrols \x07\x08\x1b[31m\u2028\u2029\ufeff\ufffe" + " text" * 50,
    "line.txt": "wordline " + "x" * 5_000_000 + " wordline " + "long " * 1_000_000,
    "letter.eml": f"From: <script>{BAD}</script> <a@b.example>\nTo: c@d.example\nSubject:"
    f" wordletter =?utf-8?q?=3Cimg_src=3Dx_onerror=3D{BAD.replace('=', '=3D')}=3E?=\n"
    f"Date: Mon, 1 Jan 2024 00:00:00 +0000\n\nwordletter <script>{BAD}</script>\n",
    f"<img src=x onerror={BAD}> wordname.txt": "wordname text",
    "invoice\u202efdp.txt": "wordinvoice text",
    "two\nlines.txt": "wordlines text",
    "long.md": "# wordlong " + "endless " * 20_000 + "\n\nwordlong",
}


def test_hostile_documents_are_text_and_nothing_else(watched, tmp_path):
    made, folder = tmp_path / "device", tmp_path / "documents"
    made.mkdir()
    for name, text in HOSTILE.items():
        write_document(folder, name, text)
    (folder / os.fsdecode(b"bytes\xff.txt")).write_text("wordbytes text")
    run_device(made, "index", folder)
    with running_device(made) as running:
        device_page = DeviceTab(watched, running)
        shown = []
        for text in HOSTILE.values():
            joined = text if isinstance(text, bytes) else text.encode()
            word = re.search(rb"word[a-z]+", joined.replace(b"\0", b""))
            word = word[0].decode() if word else "wordsixteen"
            if not device_page.search(word):
                continue  # it was not read, as binary
            shown.append(word)
            device_page.tab.click("#results .title >> nth=0")
            device_page.tab.wait_for_selector("#preview .text")
            assert device_page.tab.evaluate(WIDE) == 0
            assert (
                device_page.tab.locator(
                    "#preview .text :not(mark), #results img, dialog a"
                ).count()
                == 0
            )
            device_page.tab.keyboard.press("Escape")
        assert len(shown) >= len(HOSTILE) - 1 and "wordline" in shown
        assert device_page.search("wordtitle") == [f"<img src=x onerror={BAD}> wordtitle"]
        device_page.search("wordinvoice")
        path = device_page.tab.locator("#results .path").first
        assert "\u202e" not in path.inner_text() + path.get_attribute("title")
        device_page.tab.click("#panel-button")
        device_page.tab.wait_for_selector("#why .parts li")
        device_page.tab.click("#tab-yours")
        device_page.tab.click("#history summary")
        device_page.tab.wait_for_selector("#history li")
        device_page.check_clean()


# ---- the end


def test_ctrl_c_ends_it_and_the_page_says_so(watched, copied_folder):
    running = RunningDevice(copied_folder)
    try:
        device_page = DeviceTab(watched, running)
        titles = device_page.search("garden")
        assert running.home.page == running.address
        assert running.address in run_device(running.home.folder, "search", "--no-open")
    finally:
        errors = running.interrupt(seconds=3.0)
    assert errors == "" and running.process.returncode == 0
    assert not (running.home.folder / "page.json").exists()
    device_page.tab.fill("#query", "garden journal")
    expect(device_page.tab.locator("#state")).to_contain_text("The search program is not running")
    assert device_page.titles() == titles  # what was shown stays
    device_page.watched.complaints.clear()  # the browser itself notes the lost connection
