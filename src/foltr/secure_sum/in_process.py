"""All parties of a secure sum in one process: the whole protocol in bytes, with drop-outs at any
step."""

from __future__ import annotations

from collections.abc import Mapping

from foltr.core import Array, Withheld
from foltr.secure_sum.client import SumClient
from foltr.secure_sum.keys import node_key
from foltr.secure_sum.messages import Kind
from foltr.secure_sum.server import SumServer
from foltr.secure_sum.terms import LEAST, Terms


def secure_sum(
    terms: Terms,
    words: Mapping[int, Array],
    model: Array,
    leaving: Mapping[int, Kind] | None = None,
    least: float | None = LEAST,
) -> SumServer:
    """The server after its last step, with the sum (`total`) over its `survivors`; may raise
    Withheld.

    `model` is what every client was sent. `leaving` is the first message that a client no longer
    sends; a client without words does not send MASKED."""
    leaving = leaving or {}
    nodes = {i: node_key() if terms.consistency else (None, b"") for i in range(terms.clients)}
    known = {i: public for i, (_, public) in nodes.items()} if terms.consistency else {}
    server = SumServer(terms, known)
    clients = {
        i: SumClient(terms, i, model, nodes[i][0], known, least, smallest=2)
        for i in range(terms.clients)
    }
    post = dict.fromkeys(clients, b"")
    while (step := server.due) is not None:
        for i, message in post.items():
            if leaving.get(i, Kind.UNMASK + 1) <= step or (step == Kind.MASKED and i not in words):
                continue
            try:
                server.take(clients[i].answer(step, message, words.get(i)))
            except Withheld:  # too few neighbours are left for this client
                continue
        post = server.close()
    return server
