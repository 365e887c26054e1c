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

expect = pytest.importorskip(
    "playwright.sync_api", reason="no Playwright: the page is NOT tested in a browser"
).expect
for needed in ("uvicorn", "Stemmer", "selectolax"):
    pytest.importorskip(needed, reason="needs foltr[device]: its page is NOT tested in a browser")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory, chromium):
    """The folder of a device whose index has the documents."""
    folder = tmp_path_factory.mktemp("device")
    device, documents = folder / "device", folder / "documents"
    device.mkdir()
    write_documents(documents)
    told = run_device(device, "index", documents)
    assert told.startswith("39 documents in")
    return device


@pytest.fixture
def copied(indexed, tmp_path):
    """A copy of it, for a test that needs a process of its own."""
    made = tmp_path / "device"
    made.mkdir()
    shutil.copy(indexed / "index.db", made)
    return made


@pytest.fixture(scope="module")
def device(tmp_path_factory, indexed):
    made = tmp_path_factory.mktemp("shared")
    shutil.copy(indexed / "index.db", made)
    with running_device(made) as running:
        yield running


@pytest.fixture
def page(watched, device):
    """A tab with the page. What was recorded before is deleted."""
    made = DeviceTab(watched, device)
    made.tab.evaluate(
        "(token) => Promise.all(['clear', 'pause'].map((name) => fetch(`/api/${name}`, {method:"
        " 'POST', body: '{\"paused\": false}', headers: {'X-Foltr-Token': token}})))",
        device.token,
    )
    yield made
    made.check_clean()


def wait_until_recorded(page, name="look"):
    return page.tab.expect_response(lambda answer: answer.url.endswith(f"/api/{name}"))


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


def test_results_appear_while_typing_and_only_the_last_list_is_recorded(page, device):
    expect(page.tab.locator("#query")).to_be_focused()
    page.tab.keyboard.type("garden jour", delay=80)
    expect(page.tab.locator("#results .title")).to_have_count(10)
    page.settled()
    asked = [url for url in page.requests if "/api/search" in url]
    assert len(asked) >= 3 and device.searches() == []
    expect(page.tab.locator("#state span")).to_have_text("The best 10 of 36 found")
    with wait_until_recorded(page):
        page.tab.keyboard.type("nal")
        page.tab.keyboard.press("Enter")
    page.tab.keyboard.press("Enter")
    page.settled()
    assert device.searches() == [("garden journal", [])]
    assert page.titles()[0] == f"Note {OLDEST} about garden"
    assert "garden" in page.tab.locator("#results .snippet mark").first.inner_text()


def test_a_list_that_stays_is_recorded_without_enter(page, device):
    with wait_until_recorded(page):
        page.tab.fill("#query", "tax")
    assert device.searches() == [("tax", [])]


def test_the_keyboard_moves_between_results_and_opens_a_preview(page, device):
    page.search("kernel journal")
    tab = page.tab
    tab.keyboard.press("ArrowDown")
    assert focused_place(tab) == 0
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("j")
    tab.keyboard.press("k")
    assert focused_place(tab) == 1
    second = page.titles()[1]
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
    assert device.searches() == [("kernel journal", [second])]


def test_the_preview_shows_a_mark_that_is_far_down(page):
    page.search("needle")
    page.tab.click("#results .title >> nth=0")
    here = page.tab.locator("#preview mark.here")
    expect(here).to_have_text("needle")
    assert page.tab.evaluate("document.querySelector('.d-body').scrollTop") > 500
    assert is_in_view(page.tab, "#preview mark.here", "#preview .d-body")
    page.tab.keyboard.press("n")
    expect(page.tab.locator("#mark-count")).to_have_text("2 of 2")
    assert is_in_view(page.tab, "#preview mark.here", "#preview .d-body")


def test_a_result_is_opened_by_mouse_and_with_its_own_program(page, device):
    page.search("rental contract")
    page.tab.click("#results .snippet >> nth=0")
    expect(page.tab.locator("#preview-title")).to_have_text("The web page")
    page.tab.click("#preview .main")
    expect(page.tab.locator("#preview-said")).to_have_text("Opened with its own program.")
    page.tab.click("#preview .icon >> nth=0")
    page.tab.hover("#results li >> nth=0")
    with wait_until_recorded(page, "open"):
        page.tab.click("#results .own >> nth=0")
    path = page.tab.get_attribute("#results .path >> nth=0", "title")
    expect_lines(device.opened, [path, path])
    device.opened.unlink()
    assert device.searches() == [("rental contract", ["The web page"])]


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


def test_a_program_is_not_opened_and_the_page_says_why(page, device):
    page.search("scheduler")
    path = page.tab.get_attribute("#results .path >> nth=0", "title")
    os.chmod(path, 0o755)
    page.watched.complaints.clear()
    page.tab.keyboard.press("Control+Enter")
    expect(page.tab.locator("#state")).to_contain_text("is a program")
    os.chmod(path, 0o644)
    assert not device.opened.exists()
    page.watched.complaints.clear()  # the browser itself notes the refusal


# ---- nothing found, filters


def test_nothing_found_offers_a_word_that_is_similar(page):
    assert page.search("gardne journal zzzqqq type:pdf") == []
    empty = page.tab.locator("#empty")
    expect(empty).to_contain_text("No document has the word gardne")
    expect(empty).to_contain_text("No document has the word zzzqqq. Look at its spelling")
    page.search("gardne")
    page.tab.click("#empty button:has-text('garden')")
    expect(page.tab.locator("#query")).to_have_value("garden")
    expect(page.tab.locator("#results .title").first).to_have_text(f"Note {OLDEST} about garden")


def test_nothing_found_offers_a_search_without_filters(page):
    page.search("tax type:pdf")
    expect(page.tab.locator("#empty")).to_contain_text("Without type:pdf: 6 documents.")
    page.tab.click("text=Show them")
    expect(page.tab.locator("#query")).to_have_value("tax")
    expect(page.tab.locator("#results .title")).to_have_count(6)


def test_the_menus_write_filters_into_the_query(page):
    page.search("journal")
    names = page.tab.locator("#only-folder option").all_inner_texts()
    assert names[0] == "All folders" and "garden (6)" in names and "code (1)" in names
    page.tab.select_option("#only-folder", "music")
    expect(page.tab.locator("#query")).to_have_value("journal folder:music")
    expect(page.tab.locator("#state span")).to_have_text("6 documents")
    page.tab.select_option("#only-folder", "")
    page.tab.select_option("#only-type", "html")
    expect(page.tab.locator("#empty")).to_contain_text("Without type:html")
    page.search("journal type:pfd")
    expect(page.tab.locator("#state")).to_contain_text("did you mean 'pdf'?")
    assert len(page.titles()) == 10
    page.search("tax after:2023-01 before:2025")
    expect(page.tab.locator("#results .title")).to_have_count(3)


def test_filters_alone_list_the_newest_documents_which_can_be_opened(page, device):
    assert page.search("folder:travel") == [f"Note {n} about travel" for n in range(OLDEST + 1)]
    expect(page.tab.locator("#state small")).to_contain_text("newest first")
    assert "The travel journal" in page.tab.inner_text("#results .snippet >> nth=0")
    page.tab.keyboard.press("ArrowDown")
    page.tab.keyboard.press("Enter")
    expect(page.tab.locator("#preview .text")).to_contain_text("Note 0 about travel")
    page.tab.keyboard.press("Escape")
    page.tab.keyboard.press("p")
    expect(page.tab.locator("#panel-order")).to_contain_text("the newest documents come first")
    page.tab.wait_for_timeout(1700)  # a list of words would be recorded now
    assert device.searches() == []


# ---- the panel


def test_the_panel_shows_the_list_of_bm25_and_the_parts_of_a_score(page):
    titles = page.search("recipe journal")
    page.tab.keyboard.press("ArrowDown")
    page.tab.keyboard.press("p")
    expect(page.tab.locator("#why .which")).to_have_text(titles[0])
    plain = page.tab.locator(".order ol >> nth=0").locator(".name").all_inner_texts()
    assert plain[:6] == [f"Note {n} about recipe" for n in range(OLDEST, -1, -1)]
    shown = page.tab.locator(".order ol >> nth=1").locator(".name").all_inner_texts()
    assert shown == titles
    assert page.tab.locator(".order svg path").count() == len(titles)
    rows = page.tab.locator("#why .parts li:visible")
    assert 1 <= rows.count() <= 8
    page.tab.click("text=Show all 38")
    assert rows.count() == 38
    told = page.tab.locator("#why .parts b").all_inner_texts()
    score = float(re.search(r"score is ([\d.]+)", page.tab.inner_text("#why")[:200])[1])
    parts = [float(each.replace("\N{MINUS SIGN}", "-")) for each in told]
    assert sum(parts) == pytest.approx(score, abs=0.2)
    page.tab.focus("#results .title >> nth=0")
    page.tab.keyboard.press("ArrowDown")
    expect(page.tab.locator("#why .which")).to_have_text(titles[1])
    page.tab.click(".order button >> nth=2")
    expect(page.tab.locator("#why .which")).to_have_text(titles[2])


def test_the_panel_shows_numbers_and_what_leaves_the_device(page):
    page.search("music")
    page.tab.click("#panel-button")
    page.tab.click("#tab-learned")
    facts = page.tab.locator("#panel-learned")
    expect(facts).to_contain_text("Nothing is learned yet")
    expect(facts.locator("dl").first).to_contain_text(re.compile(r"Recorded searches\s*1"))
    expect(facts.locator("dl").last).to_contain_text(re.compile(r"Documents\s*39"))
    page.tab.click("#tab-leaving")
    leaving = page.tab.locator("#panel-leaving")
    expect(leaving).to_contain_text("Nothing. This device learns alone.")
    assert leaving.locator(".kept li").count() == 4
    page.tab.reload()
    expect(leaving).to_contain_text("Nothing. This device learns alone.")  # still open there


def test_clicks_change_the_order_and_the_panel_shows_how(watched, copied):
    """The user opens the newest document of each topic, which BM25 puts last."""
    with running_device(copied, "--no-guard") as running:
        page = DeviceTab(watched, running)
        newest = "Note 0 about music"
        before = page.search("music journal").index(newest)
        assert before == OLDEST
        for topic in TOPICS[:5] * 3:
            place = page.search(f"{topic} journal").index(f"Note 0 about {topic}")
            page.tab.click(f"#results .title >> nth={place}")
            page.tab.wait_for_selector("#preview mark.here")
            page.tab.keyboard.press("Escape")
        titles = page.search("music journal")
        assert titles.index(newest) < before
        page.tab.click("#panel-button")
        moved = page.tab.locator(f".order ol >> nth=1 >> li:has-text('{newest}') .move.up")
        expect(moved).to_have_text(f"▲{before - titles.index(newest)}")
        page.check_clean()
    with running_device(copied) as running:  # with the guard
        page = DeviceTab(watched, running)
        page.search("music journal")
        expect(page.tab.locator("#state small")).to_contain_text("mixed order")
        page.tab.click("#panel-button")
        expect(page.tab.locator("#panel-order")).to_contain_text("mixes the learned order")
        teams = page.tab.locator(".order ol .team")
        marks = [each.get_attribute("data-team") for each in teams.all()]
        assert {"1", "2"} <= set(marks)
        page.check_clean()


# ---- the user's data


def test_while_paused_nothing_is_recorded(page, device):
    page.tab.click("#learning")
    page.tab.click("#learns")
    expect(page.tab.locator("#learning")).to_have_text("Learning is paused")
    page.search("garden")
    page.tab.click("#results .title >> nth=0")
    page.tab.wait_for_selector("#preview mark.here")
    page.tab.keyboard.press("Escape")
    assert device.searches() == []
    page.tab.click("#learns")
    expect(page.tab.locator("#learning")).to_have_text("Learning")
    page.search("tax")
    assert device.searches() == [("tax", [])]


def open_history(page):
    page.tab.click("#panel-button")
    page.tab.click("#tab-yours")
    page.tab.click("#history summary")
    return page.tab.locator("#history li")


def test_a_recorded_search_can_be_forgotten(page, device):
    for topic in ("garden", "tax", "music"):
        page.search(topic)
    rows = open_history(page)
    expect(rows).to_have_count(3)
    assert rows.locator(".query").all_inner_texts() == ["music", "tax", "garden"]
    page.tab.click("#history li:has-text('tax') .small")
    expect(rows).to_have_count(2)
    expect(page.tab.locator("#yours-said")).to_have_text("Forgotten.")
    assert device.searches() == [("garden", []), ("music", [])]


def test_forgetting_the_shown_list_does_not_record_it_again_and_it_can_be_opened(page, device):
    page.search("music")
    rows = open_history(page)
    with page.tab.expect_response(lambda answer: "/api/search" in answer.url):
        page.tab.click("#history li .small")
    expect(rows).to_have_count(0)
    page.tab.wait_for_timeout(1700)  # a list that was made by typing would be recorded now
    assert device.searches() == []
    page.tab.click("#results .title >> nth=0")
    expect(page.tab.locator("#preview mark.here")).to_have_text("music")
    assert [query for query, _ in device.searches()] == ["music"]


def test_everything_can_be_saved_and_deleted(page, device):
    page.search("garden")
    page.search("tax")
    open_history(page)
    with page.tab.expect_download() as download:
        page.tab.click(".acts .button:has-text('Save')")
    assert download.value.suggested_filename == "foltr-searches.json"
    saved = json.loads(open(download.value.path(), "rb").read())
    assert [each["query"] for each in saved] == ["garden", "tax"]
    page.tab.click(".acts .button:has-text('Delete')")
    expect(page.tab.locator("#question .button >> nth=0")).to_be_focused()
    page.tab.keyboard.press("Escape")
    assert len(device.searches()) == 2
    page.tab.click(".acts .button:has-text('Delete')")
    expect(page.tab.locator("#question")).to_contain_text("all 2 recorded searches")
    page.tab.click("#question .danger")
    expect(page.tab.locator("#yours-said")).to_contain_text("is deleted")
    assert device.searches() == []


# ---- its address and its look


def test_the_token_leaves_the_address_bar_and_the_tab_keeps_it(page, device, watched):
    assert page.tab.url == device.page
    assert page.tab.evaluate("history.length") <= 2
    page.tab.reload()
    expect(page.tab.locator("#amount")).to_have_text("39 documents on this device")
    assert page.search("tax")
    kept = page.tab.evaluate("JSON.stringify([document.cookie, localStorage])")
    assert json.loads(kept) == ["", {"foltr-section": "order"}]


def test_without_the_token_the_page_explains_itself(watched, device):
    each = watched()
    each.tab.goto(device.page)
    expect(each.tab.locator("#notice")).to_contain_text("This page needs its whole address")
    expect(each.tab.locator("#query")).to_be_hidden()
    each.tab.goto(device.page + "#wrong")
    expect(each.tab.locator("#state")).to_contain_text("open the address that it printed")
    each.complaints.clear()  # the browser itself notes the refusal
    each.tab.goto(device.address)
    expect(each.tab.locator("#amount")).to_have_text("39 documents on this device")


LOOKS = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"viewport": {"width": 390, "height": 844}},
    {"viewport": {"width": 320, "height": 568}, "color_scheme": "dark"},
]


@pytest.mark.parametrize("how", LOOKS, ids=["light", "dark", "phone", "small"])
def test_nothing_is_wider_than_the_page(watched, device, how):
    page = DeviceTab(watched, device, **how)
    tab = page.tab
    assert tab.evaluate(WIDE) == 0
    page.search("garden journal " + "w" * 60)
    assert tab.evaluate(WIDE) == 0
    tab.click("#results .title >> nth=0")
    tab.wait_for_selector("#preview mark.here")
    assert tab.evaluate(WIDE) == 0
    tab.keyboard.press("Escape")
    tab.click("#panel-button")
    for section in ("order", "learned", "leaving", "yours"):
        tab.click(f"#tab-{section}")
        tab.wait_for_selector(f"#panel-{section} h3")
        page.settled()
        assert tab.evaluate(WIDE) == 0, section
        room = tab.locator(f"#panel-{section}")
        assert room.evaluate("(e) => e.scrollWidth - e.clientWidth") == 0, section
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 18, 22)"
    assert dark == (how.get("color_scheme") == "dark")
    page.check_clean()


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


def attacked(browser, page, target, token):
    """What a page of others gets, for a word that documents have and for one that none has."""
    context = browser.new_context()
    try:
        tab = context.new_page()
        if page.startswith(target):  # the address is the device's own: DNS rebinding
            body = "<!doctype html><title>evil</title><body>"
            context.route(page, lambda route: route.fulfill(body=body, content_type="text/html"))
        outcomes = []
        for word in ("garden", "zzzqqq"):
            tab.goto(page)
            outcomes.append(tab.evaluate(ATTACK, [target, token, word]))
        return outcomes
    finally:
        context.close()


def test_the_attack_works_on_a_server_that_lets_it(tricked):
    with other_site() as (port, _), other_site() as (victim, noted):
        target = f"http://127.0.0.1:{victim}"
        found, _ = attacked(tricked, f"http://localhost:{port}/", target, "")
    assert "an open secret" in found["cors /api/status"]
    assert "an open secret" in found["xhr /api/status"]
    assert found["no-cors /api/status"].startswith("opaque") and found["iframe"] == "hidden 0"
    for order in ("pause", "clear", "forget", "look", "open"):
        assert noted.count(f"POST /api/{order}") >= 4  # by fetch twice, beacon and form
    assert any(line == "GET /" for line in noted)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "rebound.example"])
def test_a_page_at_another_port_gets_and_does_nothing(page, device, tricked, name):
    """Without the token, and with a stolen one."""
    page.search("garden")
    before = device.searches()
    harmless = {"refused", "failed", "nothing", "hidden", "hidden 0", "0 "}
    with other_site() as (port, _):
        site, target = f"http://{name}:{port}/", device.page.rstrip("/")
        for token in ("", device.token):
            known, unknown = attacked(tricked, site, target, token)
            sizes = json.loads(known.pop("sizes")) + json.loads(unknown.pop("sizes"))
            assert all(each == [0, 0, 0] for each in sizes)
            got = {k: v for k, v in known.items() if not k.startswith("beacon")}
            assert set(got.values()) <= harmless, got
            assert known == with_word(unknown)
            nothing_was_done(page, device, before)


@pytest.mark.parametrize("name", ["localhost", "rebound.example"])
def test_another_name_of_this_machine_gets_and_does_nothing(page, device, tricked, name):
    """The page of others has the very port of the device, and a stolen token."""
    page.search("garden")
    before = device.searches()
    target = f"http://{name}:{device.where.partition(':')[2]}"
    known, unknown = attacked(tricked, f"{target}/attack", target, device.token)
    assert "421 this server answers only to its address" in known["same-origin /api/status"]
    assert all("arden" not in value for value in known.values())
    del known["sizes"], unknown["sizes"]
    assert known == with_word(unknown)
    assert all(value.startswith("421") for key, value in known.items() if key.startswith("post"))
    nothing_was_done(page, device, before)


def with_word(outcomes):
    """Outcomes for a word that no document has, named as those for the other word."""
    return {name.replace("zzzqqq", "garden"): value for name, value in outcomes.items()}


def nothing_was_done(page, device, before):
    page.tab.reload()
    expect(page.tab.locator("#learning")).to_have_text("Learning")  # not paused
    assert device.searches() == before != []
    assert not device.opened.exists()


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
    device, folder = tmp_path / "device", tmp_path / "documents"
    device.mkdir()
    for name, text in HOSTILE.items():
        write_document(folder, name, text)
    (folder / os.fsdecode(b"bytes\xff.txt")).write_text("wordbytes text")
    run_device(device, "index", folder)
    with running_device(device) as running:
        page = DeviceTab(watched, running)
        shown = []
        for text in HOSTILE.values():
            joined = text if isinstance(text, bytes) else text.encode()
            word = re.search(rb"word[a-z]+", joined.replace(b"\0", b""))
            word = word[0].decode() if word else "wordsixteen"
            if not page.search(word):
                continue  # it was not read, as binary
            shown.append(word)
            page.tab.click("#results .title >> nth=0")
            page.tab.wait_for_selector("#preview .text")
            assert page.tab.evaluate(WIDE) == 0
            assert (
                page.tab.locator("#preview .text :not(mark), #results img, dialog a").count() == 0
            )
            page.tab.keyboard.press("Escape")
        assert len(shown) >= len(HOSTILE) - 1 and "wordline" in shown
        assert page.search("wordtitle") == [f"<img src=x onerror={BAD}> wordtitle"]
        page.search("wordinvoice")
        path = page.tab.locator("#results .path").first
        assert "\u202e" not in path.inner_text() + path.get_attribute("title")
        page.tab.click("#panel-button")
        page.tab.wait_for_selector("#why .parts li")
        page.tab.click("#tab-yours")
        page.tab.click("#history summary")
        page.tab.wait_for_selector("#history li")
        page.check_clean()


# ---- the end


def test_ctrl_c_ends_it_and_the_page_says_so(watched, copied):
    running = RunningDevice(copied)
    try:
        page = DeviceTab(watched, running)
        titles = page.search("garden")
        assert running.home.page == running.address
        assert f"it runs already: {running.address}" in run_device(
            running.home.folder, "search", "--no-open"
        )
    finally:
        errors = running.interrupt(seconds=3.0)
    assert errors == "" and running.process.returncode == 0
    assert not (running.home.folder / "page.json").exists()
    page.tab.fill("#query", "garden journal")
    expect(page.tab.locator("#state")).to_contain_text("The search program is not running")
    assert page.titles() == titles  # what was shown stays
    page.watched.complaints.clear()  # the browser itself notes the lost connection
