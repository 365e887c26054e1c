"""A node, without a SuperLink."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from flwr.app import Message, Metadata

from foltr.core.errors import Mistake
from foltr.deployment.flower.node import Abandoned, Node, split
from foltr.deployment.protocol.frames import HEADER, Frame
from foltr.deployment.protocol.messages import REFUSED, TYPE, packed


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:port", "host:70000"])
def test_an_address_is_host_and_port(address):
    with pytest.raises(Mistake, match="host:port"):
        split(address)


def test_addresses():
    assert split("server.example:9443") == ("server.example", 9443)
    assert split("[::1]:1") == ("::1", 1)


def test_a_node_without_a_key_is_for_trying_out():
    with pytest.raises(Mistake, match="private key"):
        Node("localhost:1", bytes)
    Node("localhost:1", bytes, insecure=True)


def test_a_server_that_is_not_there_is_waited_for(closed_port):
    stop, told = threading.Event(), []

    def tell(text):
        told.append(text)
        stop.set()

    Node(f"127.0.0.1:{closed_port}", bytes, insecure=True, tell=tell).serve(stop)
    assert "no connection" in told[0]


@pytest.mark.parametrize("page", [b"<html>a proxy's page</html>", b"\xff" * 50, b""])
def test_an_answer_of_something_else_ends_no_node(page):
    stop, told = threading.Event(), []
    requests = []

    class Page(BaseHTTPRequestHandler):
        def do_POST(self):
            requests.append(self.path)
            if len(requests) > 3:  # an empty page is an answer without content: nothing is told
                stop.set()
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_):
            pass

    def tell(text):
        told.append(text)
        stop.set()

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        node = Node(f"127.0.0.1:{server.server_port}", bytes, insecure=True, tell=tell)
        node.serve(stop)  # raises nothing
        server.shutdown()
    assert "does not respond like a SuperLink" in told[0]


@pytest.mark.parametrize(("date", "age"), [("Tue, 14 Nov 2023 22:13:40 GMT", 20.0), ("?", 0.0)])
def test_the_age_of_an_ask_is_by_the_server_s_clock(date, age):
    """This machine's clock does not matter."""
    asked = []

    def answer(ask):
        asked.append(ask)
        raise Abandoned

    node = Node("localhost:1", answer, insecure=True)
    metadata = SimpleNamespace(created_at=1_700_000_000.0, ttl=60.0)
    node._seen(SimpleNamespace(status_code=200, headers={"date": date}))
    with pytest.raises(Abandoned):
        node._reply(SimpleNamespace(content=packed(b"ask"), metadata=metadata))
    assert asked == [(b"ask", 60.0, age)]


def test_an_ask_of_another_version_is_refused_by_name():
    """The server's operator reads which side to update."""
    told = []
    node = Node(
        "localhost:1", lambda ask: Frame.from_bytes(ask.frame), insecure=True, tell=told.append
    )
    node._date = 0.0
    frame = bytes([*b"fF", 3]) + bytes(HEADER.size - 3)
    metadata = Metadata(1, "", 1, 2, "", "", time.time(), 60.0, TYPE)
    reply = node._reply(Message(packed(frame), metadata=metadata))
    assert reply.error.code == REFUSED
    text = "version 3 of the protocol, but this foltr speaks version 2: this foltr is older"
    assert text in reply.error.reason and text in told[0]
