"""A node, without a SuperLink."""

import socket
import threading

import pytest

pytest.importorskip("flwr", reason="Flower is missing: pip install 'foltr[deploy]'")

from foltr.errors import Mistake
from foltr.federated.node import Node, split


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


def test_a_server_that_is_not_there_is_waited_for():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        stop, told = threading.Event(), []

        def tell(text):
            told.append(text)
            stop.set()

        Node(f"127.0.0.1:{port}", bytes, insecure=True, tell=tell).serve(stop)
    assert "no connection" in told[0]
