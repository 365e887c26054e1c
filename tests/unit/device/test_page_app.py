"""The web application of a device's page: who may ask, what is refused, and how; and which files
are opened with a program."""

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.core.system import web
from foltr.device.content import Text
from foltr.device.home import Home
from foltr.device.page import app
from foltr.device.page import app as opening
from foltr.device.running import Running
from property_settings import examples

WHERE, TOKEN = "127.0.0.1:8765", "a-token-for-tests"
OWN = {"sec-fetch-site": "same-origin", "x-foltr-token": TOKEN}
GETS = ("search", "compare", "why", "status", "history", "export")
POSTS = ("look", "open", "pause", "forget", "clear", "leave")


class AskedPage:
    """A device's page, and requests to it without a network."""

    def __init__(self, running):
        self.running = running
        self.application = app.application(running, WHERE, TOKEN)

    def __call__(self, method, path, headers=OWN, base=f"http://{WHERE}", **more):
        async def ask():
            transport = httpx.ASGITransport(self.application, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, headers=headers, **more)

        return asyncio.run(ask())

    def get(self, name, headers=OWN, **parameters):
        return self("GET", f"/api/{name}", headers, params=parameters)

    def post(self, name, body=None, **more):
        return self("POST", f"/api/{name}", json=body, **more)


def put_page_document(running, path, body, title):
    with running.index.batch():
        running.index.put(str(path), len(body), 1, [Text("text", title, "", body, 1e9)])


@pytest.fixture
def page_running(tmp_path):
    home = Home(tmp_path / "device")
    home.index().close()
    made = Running(home)
    for n in range(12):
        path = tmp_path / f"file{n}.txt"
        path.write_text("content")
        put_page_document(made, path, f"kernel module {n}", f"Kernel {n}")
    return made


@pytest.fixture
def asked_page(page_running):
    return AskedPage(page_running)


@pytest.fixture(scope="module")
def asked_once(tmp_path_factory):
    """For requests that change nothing. Its index is empty."""
    home = Home(tmp_path_factory.mktemp("page") / "device")
    home.index().close()
    return AskedPage(Running(home))


def is_json_error(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error and "Traceback" not in answer.text
    return error


# ---- every path


def test_the_page_and_its_parts_have_their_types(asked_page):
    kinds = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
    folder = Path(app.__file__).parent / "assets"
    names = [each.name for each in folder.iterdir()]
    assert len(names) >= 15
    for name in names:
        answer = asked_page("GET", f"/{name}")
        assert answer.status_code == 200 and answer.content == (folder / name).read_bytes()
        assert answer.headers["content-type"] == f"{kinds[Path(name).suffix]}; charset=utf-8"
    first = asked_page("GET", "/", {"sec-fetch-site": "none"})
    assert first.status_code == 200 and first.content == (folder / "index.html").read_bytes()


def test_a_search_is_looked_at_opened_and_explained(asked_page):
    found = asked_page.get("search", q="kernel module", typing="1").json()
    assert len(found["results"]) == 10 and found["found"] == 12
    name, id = found["list"], found["results"][0]["id"]
    assert asked_page.post("look", {"list": name}).json() == {}
    shown = asked_page.post("open", {"list": name, "id": id, "how": "preview"}).json()
    assert "".join(text for text, _ in shown["pieces"]).startswith("kernel module")
    assert asked_page.get("compare", list=name).json()["shown"][0] == id
    assert len(asked_page.get("why", list=name, id=id).json()["features"]) == 38
    (search,) = asked_page.get("history").json()["searches"]
    assert search["query"] == "kernel module" and len(search["clicked"]) == 1
    assert asked_page.get("history", before=search["id"]).json() == {"searches": [], "more": False}
    status = asked_page.get("status").json()
    assert status["documents"] == 12 and status["model"]["clicks"] == 1
    assert status["folders"][0]["documents"] == 12 and status["federation"] is None
    exported = asked_page.get("export")
    assert exported.headers["content-disposition"] == 'attachment; filename="foltr-searches.json"'
    assert exported.headers["content-type"] == "application/json"
    assert exported.json()[0]["query"] == "kernel module"
    assert asked_page.post("forget", {"search": search["id"]}).status_code == 200
    assert asked_page.get("history").json()["searches"] == []


def test_pausing_and_clearing(asked_page):
    assert asked_page.post("pause", {"paused": True}).status_code == 200
    assert asked_page.get("status").json()["paused"] is True
    asked_page.post("pause", {"paused": False})
    name = asked_page.get("search", q="kernel").json()["list"]
    asked_page.post("look", {"list": name})
    assert asked_page.get("status").json()["model"]["searches"] == 1
    assert asked_page.post("clear", {}).status_code == 200
    assert asked_page.get("status").json()["model"]["searches"] == 0


def test_leaving_without_a_federation_is_refused(asked_page):
    error = is_json_error(asked_page.post("leave", {"forget": False}), 400)
    assert error == "this device has not joined a federation"


def test_a_list_by_date_can_be_opened(asked_page):
    found = asked_page.get("search", q="type:text").json()
    assert found["shown_by"] == "date" and len(found["results"]) == 10
    body = {"list": found["list"], "id": found["results"][0]["id"], "how": "preview"}
    assert asked_page.post("open", body).json()["pieces"]
    assert asked_page.get("history").json()["searches"] == []


# ---- bad input


@pytest.mark.parametrize("name", POSTS)
@pytest.mark.parametrize(
    "content",
    [b"no JSON", b"\xff\xfe", b"[" * 9000, b"[1]", b"null", b'"text"', b"1e999", b"{", b"NaN"],
)
def test_what_is_no_json_object_is_refused(asked_once, name, content):
    error = is_json_error(asked_once("POST", f"/api/{name}", content=content), 400)
    assert error.startswith("the request is not")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("look", {}),
        ("look", {"list": 5}),
        ("look", {"list": None}),
        ("look", {"list": "x" * 101}),
        ("look", {"list": "unknown"}),
        ("look", {"list": "\ud800"}),
        ("open", {"list": "x"}),
        ("open", {"list": "x", "id": "y", "how": "preview"}),
        ("open", {"list": "x", "id": -1, "how": "preview"}),
        ("open", {"list": "x", "id": 1.5, "how": "preview"}),
        ("open", {"list": "x", "id": 10**30, "how": "preview"}),
        ("open", {"list": "x", "id": [1], "how": "preview"}),
        ("open", {"list": "x", "id": True, "how": "preview"}),
        ("open", {"list": "", "id": 10**17, "how": "preview"}),
        ("open", {"list": "x", "id": 1, "how": "run"}),
        ("open", {"list": "x", "id": 1, "how": {"a": 1}}),
        ("pause", {}),
        ("pause", {"paused": "yes"}),
        ("pause", {"paused": 1}),
        ("forget", {}),
        ("forget", {"search": "1; drop table search"}),
        ("forget", {"search": 10**30}),
        ("forget", {"search": 77}),
        ("leave", {"forget": None}),
    ],
)
def test_values_of_the_wrong_type_are_refused(asked_once, name, body):
    is_json_error(asked_once("POST", f"/api/{name}", content=json.dumps(body).encode()), 400)


@pytest.mark.parametrize(
    "path",
    [
        "search",
        f"search?q={'x' * 2001}",
        "compare",
        "compare?list=unknown",
        f"compare?list={'x' * 101}",
        "why?list=unknown&id=1",
        f"why?list=x&id={'9' * 30}",
        "why?list=x&id=-1",
        "why?list=x",
        "history?before=x",
        f"history?before={'9' * 30}",
        "history?before=",
        "history?before=1.0",
        "history?before=%00",
    ],
)
def test_wrong_parameters_are_refused(asked_once, path):
    is_json_error(asked_once("GET", f"/api/{path}"), 400)


@pytest.mark.parametrize(
    "q", ["%00", "%ff%fe", "%22", "*", "type:", "a" * 2000, "%F0%9F%98%80 %E2%80%AE", "'; drop--"]
)
def test_strange_queries_are_answered(asked_once, q):
    for typing in "01":
        assert asked_once("GET", f"/api/search?q={q}&typing={typing}").status_code == 200


def test_a_long_request_is_refused(asked_once):
    body = json.dumps({"list": "x" * app.MOST_BODY}).encode()
    assert (
        is_json_error(asked_once("POST", "/api/look", content=body), 400)
        == "the request is too long"
    )


def test_a_number_of_thousands_of_digits_is_refused(asked_once):
    body = b'{"list": "x", "how": "preview", "id": ' + b"9" * 5000 + b"}"
    is_json_error(asked_once("POST", "/api/open", content=body), 400)


@examples(60)
@given(
    name=st.sampled_from(POSTS[:4]),
    body=st.dictionaries(
        st.sampled_from(["list", "id", "how", "paused", "search"]),
        st.sampled_from([None, True, "preview", "program", ""])
        | st.one_of(st.integers(), st.floats(), st.text(), st.lists(st.text())),
    ),
)  # fmt: skip
def test_no_body_makes_it_fail(asked_once, name, body):
    answer = asked_once("POST", f"/api/{name}", content=json.dumps(body).encode())
    assert answer.status_code in (200, 400)
    answer.json()


@pytest.mark.parametrize(
    "path",
    [
        "/api/unknown",
        "/api/",
        "/api/search/",
        "/api/search/more",
        "/nothing.js",
        "/favicon.ico",
        "/..%2fapp.py",
        "/%2e%2e/app.py",
        "/assets/page.js",
        "/page.js/",
        "/page.js%00",
    ],
)
def test_unknown_paths_are_refused(asked_once, path):
    is_json_error(asked_once("GET", path), 404)


@pytest.mark.parametrize("name", GETS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_what_reads_does_not_answer_to_other_methods(asked_once, name, method):
    is_json_error(asked_once(method, f"/api/{name}"), 405)


@pytest.mark.parametrize("name", POSTS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS"])
def test_what_changes_something_answers_to_post_only(asked_once, name, method):
    answer = asked_once(method, f"/api/{name}")
    assert answer.status_code == 405 and (method == "HEAD" or answer.json()["error"])
    assert asked_once("POST", "/").status_code == 405 == asked_once("POST", "/page.js").status_code


def test_an_index_that_fails_is_told(asked_page, monkeypatch):
    asked_page.running.index.close()
    error = is_json_error(asked_page.get("search", q="kernel"), 500)
    assert error.startswith("the index ") and "cannot be used" in error

    def broken(given):
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(asked_page.running, "leave", broken)
    again = AskedPage(asked_page.running)
    error = is_json_error(again.post("leave", {"forget": True}), 500)
    assert error == app.FAILED


def test_a_request_that_ends_early_leaves_no_traceback(page_running, capfd):
    with web.served(app.application(page_running, WHERE, TOKEN), "127.0.0.1", 0) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        lines = [
            "POST /api/look HTTP/1.1",
            f"Host: {WHERE}",
            *(f"{name}: {value}" for name, value in OWN.items()),
            "Content-Length: 500",
            "\r\n{",
        ]
        with socket.create_connection(("127.0.0.1", port)) as opened:
            opened.sendall("\r\n".join(lines).encode())
            opened.shutdown(socket.SHUT_WR)
            assert opened.recv(1000) == b""  # it has noticed
    assert "Traceback" not in capfd.readouterr().err


# ---- who may ask


def all_requests():
    yield from (("GET", f"/api/{name}") for name in GETS)
    yield from (("POST", f"/api/{name}") for name in POSTS)
    yield from (("GET", "/"), ("GET", "/page.js"), ("GET", "/nothing"), ("OPTIONS", "/api/search"))


def has_safe_headers(answer):
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "set-cookie" not in answer.headers
    return answer


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, None),
        ({"x-foltr-token": "another"}, 401),
        ({"x-foltr-token": None}, 401),
        ({"x-foltr-token": ""}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": "localhost:8765"}, 421),
        ({"host": "127.0.0.1:8766"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": None}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "http://localhost:8765"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"https://{WHERE}"}, 403),
    ],
)
def test_headers_are_safe_and_nobody_else_may_ask(asked_once, change, status):
    headers = {k: v for k, v in {**OWN, **change}.items() if v is not None}
    for method, path in all_requests():
        answer = has_safe_headers(asked_once(method, path, headers))
        private = path.startswith("/api/")
        if status is not None and (private or status != 401):
            assert answer.status_code == status, (method, path)
    assert asked_once.get("history").json()["searches"] == []


def test_the_address_may_be_opened_from_outside_but_nothing_else(asked_once):
    typed = {**OWN, "sec-fetch-site": "none"}
    assert asked_once("GET", "/", typed).status_code == 200
    assert asked_once("POST", "/", typed).status_code == 403
    assert asked_once("GET", "/page.js", typed).status_code == 403
    assert asked_once("GET", "/api/status", typed).status_code == 403


def test_no_websocket_is_accepted(asked_once):
    sent = []

    async def send(message):
        sent.append(message)

    async def connect():
        scope = {"type": "websocket", "path": "/api/search", "headers": []}
        await asked_once.application(scope, None, send)

    asyncio.run(connect())
    assert sent == [{"type": "websocket.close", "code": 1008}]


# ---- opening with a program


class Opener:
    """A program named xdg-open that notes what it is called with."""

    def __init__(self, folder):
        self.folder, self.noted = folder, folder / "noted"
        self.processes = []
        folder.mkdir()
        program = folder / "xdg-open"
        code = f"import sys; open({str(self.noted)!r}, 'a').write(repr(sys.argv[1:]))"
        command = shlex.join([sys.executable, "-c", code])
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)

    def start(self, *words, **options):
        self.processes.append(subprocess.Popen(*words, **options))

    def arguments(self):
        """What the program was called with, once it has ended."""
        (process,) = self.processes
        assert process.wait(60) == 0
        return self.noted.read_text()


@pytest.fixture
def opener(tmp_path, monkeypatch):
    program = Opener(tmp_path / "bin")
    started = SimpleNamespace(Popen=program.start, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(opening, "subprocess", started)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(program.folder))
    return program


@pytest.mark.parametrize("name", ["note.txt", "-e.txt", "a b 'c' $(touch d).pdf", "日本.md"])
def test_a_file_is_opened_by_exactly_its_path(tmp_path, opener, name):
    path = tmp_path / name
    path.write_text("content")
    opening.open_with_program(path)
    assert opener.arguments() == repr([str(path)])


@pytest.mark.parametrize(
    "name", ["run.sh", "a.desktop", "SETUP.EXE", "a.jar", "a.Bat", "page.hta", "a.url", "x.js"]
)
def test_a_program_is_not_opened(tmp_path, opener, name):
    path = tmp_path / name
    path.write_text("content")
    with pytest.raises(Mistake, match=r"is a program.*preview instead"):
        opening.open_with_program(path)
    assert not opener.processes


@pytest.mark.skipif(os.name == "nt", reason="not on this system: modes of files")
@pytest.mark.parametrize("mode", [0o755, 0o645, 0o654, 0o744])
def test_a_file_that_may_be_executed_is_not_opened(tmp_path, opener, mode):
    path = tmp_path / "note.txt"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    with pytest.raises(Mistake, match="is a program"):
        opening.open_with_program(path)


def test_a_python_file_is_opened_except_on_windows(tmp_path, monkeypatch):
    path = tmp_path / "note.py"
    path.write_text("print()")
    opening.check_may_open(path)
    monkeypatch.setattr(opening.os, "name", "nt")
    with pytest.raises(Mistake, match="is a program"):
        opening.check_may_open(path)


def test_links_folders_pipes_and_missing_files_are_not_opened(tmp_path, opener):
    target, link, pipe = tmp_path / "a.txt", tmp_path / "link.txt", tmp_path / "pipe.txt"
    target.write_text("content")
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path in (link, pipe, tmp_path):
        with pytest.raises(Mistake, match="not a file any more"):
            opening.open_with_program(path)
    with pytest.raises(Mistake, match=r"cannot open .*missing\.txt: No such file"):
        opening.open_with_program(tmp_path / "missing.txt")
    assert not opener.processes


def test_a_machine_without_the_opening_program_is_told(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("content")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Mistake, match="there is no program xdg-open"):
        opening.open_with_program(path)
    broken = tmp_path / "xdg-open"
    broken.write_text("#!/no/such/program\n")
    broken.chmod(0o755)
    with pytest.raises(Mistake, match="cannot start xdg-open"):
        opening.open_with_program(path)


def test_the_page_opens_a_document_with_its_program(asked_page, opener):
    found = asked_page.get("search", q="kernel 3").json()
    first = found["results"][0]
    body = {"list": found["list"], "id": first["id"], "how": "program"}
    assert asked_page.post("open", body).json() == {"opened": True}
    assert opener.arguments() == repr([first["path"]])
    Path(first["path"]).unlink()
    assert "No such file" in is_json_error(asked_page.post("open", body), 400)


def test_several_requests_at_once(asked_page):
    answers = []

    def ask(n):
        found = asked_page.get("search", q=f"kernel {n}").json()
        body = {"list": found["list"], "id": found["results"][0]["id"], "how": "preview"}
        answers.append(asked_page.post("open", body).status_code)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 8 and asked_page.get("status").json()["model"]["searches"] == 8
