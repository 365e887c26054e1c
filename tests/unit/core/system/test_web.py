"""Pages that foltr serves: who may ask, which headers a response has, where a server listens."""

import asyncio
import logging

import pytest

from foltr.core.errors import Mistake
from foltr.core.system import web


@pytest.mark.parametrize(
    "header",
    ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:80", "192.168.1.4:8765", "box:9"],
)
def test_this_machine_by_address_or_name(header):
    assert web.names_this_machine(header, "box")


@pytest.mark.parametrize(
    "header",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "",
        "localhost.evil",
        "[evil]",
    ],
)
def test_no_other_name(header):
    assert not web.names_this_machine(header, "127.0.0.1")


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1", 99999), ("127.0.0.1", -1), ("no.such.host.invalid", 0), ("é" * 70, 0)],
)
def test_no_such_place(host, port):
    with pytest.raises(Mistake, match="cannot serve at"):
        web.listening_socket(host, port)


def test_any_free_port():
    with (
        web.listening_socket("127.0.0.1", 0) as one,
        web.listening_socket("127.0.0.1", 0) as other,
    ):
        assert web.address(one) != web.address(other) and web.address(one).startswith(
            "http://127.0.0.1:"
        )


def test_a_page_leaves_the_logs_of_its_process_alone(tmp_path):
    """uvicorn's own configuration closes the handlers of everybody."""
    handler = logging.FileHandler(tmp_path / "own.log")
    try:
        with web.served(plain, "127.0.0.1", 0):
            assert handler.stream is not None and not handler.stream.closed
            assert logging.getLogger("uvicorn").handlers == []
    finally:
        handler.close()


# ---- the middleware


async def plain(scope, receive, send):
    """An application that answers anything."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 404, "headers": [(b"a", b"b")]})
        await send({"type": "http.response.body", "body": b"content"})
    else:
        await send({"type": f"{scope['type']}.accept"})


def sent_to(kind, host="localhost"):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "headers": [(b"host", host.encode())]}
    asyncio.run(web.OnlyThisMachine(plain)(scope, None, send))
    return sent


def test_every_response_has_the_headers():
    for host, status in (("localhost", 404), ("evil.example", 421)):
        headers = dict(sent_to("http", host)[0]["headers"])
        assert sent_to("http", host)[0]["status"] == status
        for name, value in web.HEADERS.items():
            assert headers[name.encode()] == value.encode()
    assert dict(sent_to("http")[0]["headers"])[b"a"] == b"b"


def test_another_name_gets_nothing_of_the_application():
    assert sent_to("http", "evil.example")[1]["body"] == web.REFUSAL
    assert sent_to("websocket", "evil.example") == [{"type": "websocket.close", "code": 1008}]
    assert sent_to("websocket") == [{"type": "websocket.accept"}]


def test_the_start_and_the_end_of_the_server_are_no_request():
    assert sent_to("lifespan", "") == [{"type": "lifespan.accept"}]


def private(headers, path="/api/search", method="GET"):
    """The status of a private page's response, and whether its application was asked."""
    sent, asked = [], []

    async def send(message):
        sent.append(message)

    async def application(scope, receive, send):
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"private"})

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "method": method, "headers": raw}
    asyncio.run(web.OnlyThisPage(application, "127.0.0.1:81", "secret")(scope, None, send))
    assert dict(sent[0]["headers"])[b"content-security-policy"].startswith(b"default-src 'none'")
    assert dict(sent[0]["headers"])[b"cross-origin-resource-policy"] == b"same-origin"
    return sent[0]["status"], bool(asked)


OWN = {
    "host": "127.0.0.1:81",
    "sec-fetch-site": "same-origin",
    "origin": "http://127.0.0.1:81",
    "x-foltr-token": "secret",
}


def test_a_private_page_may_ask_itself():
    assert private(OWN) == (200, True)
    assert private(OWN, method="POST") == (200, True)
    assert private({name: OWN[name] for name in OWN if name != "origin"}) == (200, True)
    without = {"host": "127.0.0.1:81", "sec-fetch-site": "none"}  # typed into the address bar
    assert private(without, "/") == (200, True)
    assert private({**without, "sec-fetch-site": "same-origin"}, "/page.js") == (200, True)


@pytest.mark.parametrize(
    "change, status",
    [
        ({"host": "rebound.example:81"}, 421),
        ({"host": "127.0.0.1:82"}, 421),
        ({"host": "localhost:81"}, 421),
        ({"host": ""}, 421),
        ({"sec-fetch-site": "same-site"}, 403),  # another port of this machine
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": ""}, 403),
        ({"origin": "http://127.0.0.1:82"}, 403),
        ({"origin": "null"}, 403),
        ({"x-foltr-token": ""}, 401),
        ({"x-foltr-token": "Secret"}, 401),
        ({"x-foltr-token": "secret2"}, 401),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_nobody_else_may_ask_a_private_page(change, status, method):
    assert private({**OWN, **change}, method=method) == (status, False)


def test_another_page_may_not_load_the_first_one_or_its_parts():
    other = {"host": "127.0.0.1:81", "sec-fetch-site": "same-site"}
    assert private(other, "/") == (403, False)
    assert private(other, "/page.js") == (403, False)
    assert private({**other, "sec-fetch-site": "none"}, "/", "POST") == (403, False)


def test_tokens_differ():
    made = {web.new_token() for _ in range(100)}
    assert len(made) == 100 and min(map(len, made)) >= 32
