"""The status page of `foltr serve`: what it answers, to whom, and that it shows only text."""

import json
import re
import sys
import urllib.request
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from foltr.core.errors import Mistake
from foltr.core.system import web
from foltr.deployment.server import board as boards
from foltr.deployment.server.board import Board
from foltr.deployment.server.status_html import line, sections
from foltr.deployment.server.status_page import application, is_open_to_others, page, status_page

HOSTILE = "</script><img src=x onerror='window.hurt = 1'>\"&{{script}}"


def round_of(t, answered=3, **more):
    common = {"round": t, "asked": 4, "answered": answered, "withheld": 0, "failures": {}}
    return {**common, "bytes": [2_000, 1_500], "seconds": 1.5, **more}


def board_of(rounds=3, **more):
    made = Board("0123456789ab", 10, 4)
    for t in range(rounds):
        made.add_round(round_of(t, **more))
    return made


@pytest.fixture
def client():
    """`client(board).get("/data.json")`"""
    return lambda of: TestClient(application(of), base_url="http://127.0.0.1")


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.words += data


# ---- routes


def test_what_is_answered(client):
    board = board_of()
    asked = client(board)
    assert asked.get("/healthz").json() == {"status": "ok", "problems": {}}
    assert asked.get("/nothing").status_code == 404
    found = asked.get("/data.json").json()
    fixed = {name: value for name, value in board.seen().items() if "ing" not in name}
    assert {name: found[name] for name in fixed} == {**fixed, "seconds": found["seconds"]}
    live = asked.get("/data.json?sections").json()
    assert set(live) == {"seen", "sections", "state", "line"}
    assert live["seen"]["round"] == 3 and "3 of 10 rounds done" in live["line"]
    answer = asked.get("/")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    for name, value in web.HEADERS.items():
        assert answer.headers[name] == value


def test_another_host_is_refused(client):
    for path in ("/", "/data.json", "/healthz"):
        answer = client(board_of()).get(path, headers={"host": "evil.example"})
        assert answer.status_code == 421 and answer.content == web.REFUSAL


def test_a_number_that_is_none_is_null(client):
    board = board_of(1, ndcg=float("nan"), best=0.3, refused=False)
    assert client(board).get("/data.json").json()["history"][0]["ndcg"] is None
    assert client(board).get("/").status_code == 200


def test_only_reading_is_possible(client):
    for method in ("post", "put", "delete"):
        assert getattr(client(board_of()), method)("/data.json").status_code == 405


def test_a_real_socket_that_closes():
    with status_page(board_of()) as address:
        with urllib.request.urlopen(f"{address}data.json", timeout=60) as answer:
            assert json.load(answer)["round"] == 3
        taken = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(Mistake, match=rf"port {taken} .*status = "):
            with status_page(board_of(), port=taken):
                pass
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{address}healthz", timeout=60)


def test_without_a_web_server(monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    with pytest.raises(Mistake, match="pip install starlette uvicorn"):
        application(board_of())
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(Mistake, match="pip install starlette uvicorn"):
        with status_page(board_of()):
            pass


@pytest.mark.parametrize(
    ("host", "is_open"),
    [
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("192.168.1.4", True),
        ("box", True),
    ],
)
def test_who_can_connect(host, is_open):
    assert is_open_to_others(host) == is_open


# ---- the page


def hostile_board():
    board = board_of(2, failures={HOSTILE: 2}, ndcg=0.4, best=0.5, refused=True)
    board.title = HOSTILE
    board.nodes = {HOSTILE: "connected", "a": f"refused: {HOSTILE}", "b": HOSTILE}
    board.ledger, board.epsilon = [HOSTILE], {HOSTILE: HOSTILE}
    board.note(HOSTILE)
    board.note("\udcff \u202e")
    return board


def test_hostile_text_is_only_text():
    read = Tags(page(hostile_board().seen()))
    tags = [tag for tag, _ in read.tags]
    assert (tags.count("img"), tags.count("svg"), tags.count("script")) == (0, 2, 1)  # two icons
    assert not any(name.startswith("on") for _, attributes in read.tags for name in attributes)
    assert read.words.count("window.hurt") >= 8


def test_hostile_text_in_what_the_script_puts_into_the_page():
    for name, html in sections(hostile_board().seen()).items():
        read = Tags(html)
        assert not [tag for tag, _ in read.tags if tag in ("img", "script")], name
        assert not any(each.startswith("on") for _, found in read.tags for each in found), name


def test_nothing_of_other_hosts():
    text = page(board_of().seen())
    for tag, attributes in Tags(text).tags:
        for name in ("src", "href", "action", "srcset", "style"):
            known = ("#", "data:,", "data.json")
            assert attributes.get(name, "#").startswith(known), (tag, attributes)
    # in the licence, and the name of the language of drawings
    own = ("github.com/leeoniya", "www.w3.org/2000/svg")
    assert all(each.startswith(own) for each in re.findall(r"https?://([^\s\"'<)]+)", text))
    assert "@import" not in text and "url(" not in text


def test_the_policy_allows_what_is_there_and_nothing_else():
    text = page(board_of().seen())
    policies = (a for _, a in Tags(text).tags if a.get("http-equiv") == "Content-Security-Policy")
    policy = next(policies)["content"]
    for name in ("script", "style"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert "connect-src 'self'" in policy


def test_before_the_first_round():
    seen = board_of(0).seen()
    assert line(seen) == ("live", "0 of 10 rounds done · no round yet")
    words = Tags(page(seen)).words
    assert "No round yet. Each round appears here when it is done." in words
    assert "nan" not in words.lower() and "{{" not in page(seen)


def test_tables_without_a_script():
    board = board_of(2, failures={"late": 1}, ndcg=0.41, best=0.45, refused=True)
    board.nodes = {"clinic-a": "connected", "clinic-b": "away", "lab": "revoked"}
    board.ledger, board.epsilon = ["privacy  noise"], {"the server": "3.2", "models": "1.1"}
    board.note("clinic-b: late: no answer within 60 s")
    words = Tags(page(board.seen())).words
    for told in (
        "2 of 10",
        "3 of 4",
        "0.4100",
        "best 0.4500; 2 models not adopted",
        "no answer before the deadline",
        "1 of 2",  # nodes connected; a revoked one does not count
        "7 kB",
        "4 kB to nodes, 3 kB from them",
        "against the server; against models 1.1",
        "privacy  noise",
        "clinic-b: late: no answer within 60 s",
        "The privacy budget spent after 2 rounds",
    ):
        assert told in words, told


def test_the_last_line():
    assert line(board_of(10).seen()) == ("over", "All 10 rounds are done")
    assert "about 10 s left" in line(board_of(3).seen())[1]


def test_a_long_federation_is_short_on_the_page():
    board = board_of(0)
    for t in range(boards.LAST + 30):
        board.add_round(round_of(t))
    seen = board.seen()
    assert len(seen["history"]) == boards.LAST
    assert seen["totals"]["sent"] == 2_000 * (boards.LAST + 30)
    board.nodes = {f"node-{i}": "connected" for i in range(1_000)}
    assert len(page(board.seen())) < 250_000
    assert "and 800 more nodes" in sections(board.seen())["nodes"]


# ---- the board


def test_nodes_cannot_make_ever_new_kinds_of_failures():
    board = board_of(0)
    for t in range(200):
        board.add_round(round_of(t, failures={f"kind {t}": 1}))
    assert len(board.failures) == boards.KINDS + 1 and board.failures.total() == 200


def test_a_round_that_lacks_facts_is_shown():
    board = board_of(0)
    board.add_round({"round": 0})  # of an older version's file
    assert "0 of 4" in Tags(page(board.seen())).words


def test_only_the_last_notes_are_kept():
    board = board_of(0)
    for i in range(200):
        board.note(f"note {i}")
    assert len(board.notes) == boards.NOTES and board.notes[-1].endswith(" note 199")
