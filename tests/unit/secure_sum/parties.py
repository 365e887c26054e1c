"""All parties of a small secure sum, driven by hand, with every message at hand."""

import secrets

import numpy as np
from scipy.stats import chisquare

from foltr.secure_sum.client import SumClient
from foltr.secure_sum.keys import node_key
from foltr.secure_sum.messages import Kind
from foltr.secure_sum.server import SumServer
from foltr.secure_sum.terms import Terms, model_digest

STEPS = (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.UNMASK)
# what every client was sent, where no test says otherwise
MODEL = np.array([0.5, -1.0], np.float32)
SIGNED_STEPS = (Kind.KEYS, Kind.SHARES, Kind.MASKED, Kind.SIGNED, Kind.UNMASK)


def small_terms(n, threshold=None, *, words=3, consistency=False, round=5, model=MODEL):
    threshold = n // 2 + 1 if threshold is None else threshold
    fresh, sent = secrets.token_bytes(16), model_digest(model)
    return Terms(fresh, round, sent, n, words, threshold, n - 1, threshold, 0, 32, consistency)


def ring_terms(n, threshold, degree, quorum, seed=0, words=3):
    fresh, sent = secrets.token_bytes(16), model_digest(MODEL)
    return Terms(fresh, 5, sent, n, words, threshold, degree, quorum, seed, 32, False)


def some_words(terms, seed=0):
    """Words of every size, by client."""
    draws = np.random.default_rng(seed)
    return {
        i: draws.integers(0, 2**64, terms.words, np.uint64, endpoint=False)
        for i in range(terms.clients)
    }


def plain_sum(terms, words, clients):
    return sum((words[i] for i in clients), np.zeros(terms.words, np.uint64))


def looks_uniform(words):
    """Of honest runs, one in a billion fails this."""
    counts = np.bincount(np.frombuffer(words.tobytes(), np.uint8), minlength=256)
    return chisquare(counts).pvalue > 1e-9


class Parties:
    """Goes through the steps; `sent` holds what the clients sent, `post` what the server last
    sent."""

    def __init__(self, terms, words=None, *, node_keys=False):
        nodes = (
            {i: node_key() for i in range(terms.clients)} if node_keys or terms.consistency else {}
        )
        self.node_keys = {i: private for i, (private, _) in nodes.items()}
        self.known = {i: public for i, (_, public) in nodes.items()}
        self.terms, self.words = terms, some_words(terms) if words is None else words
        self.server = SumServer(terms, self.known)
        self.clients = {
            i: SumClient(
                terms, i, MODEL, self.node_keys.get(i), self.known if nodes else None, least=None
            )
            for i in range(terms.clients)
        }
        self.post, self.sent = dict.fromkeys(self.clients, b""), {}

    def answer(self, i, message=None):
        """What client i sends next."""
        client, message = self.clients[i], self.post[i] if message is None else message
        return {
            Kind.KEYS: lambda: client.advertise(),
            Kind.SHARES: lambda: client.share(message),
            Kind.MASKED: lambda: client.mask(message, self.words[i]),
            Kind.SIGNED: lambda: client.agree(message),
            Kind.UNMASK: lambda: client.unmask(message),
        }[self.server.due]()

    def collect(self, only=None):
        """Answers of this step, not yet given to the server."""
        chosen = self.post if only is None else only
        self.sent[self.server.due] = {i: self.answer(i) for i in chosen}
        return self.sent[self.server.due]

    def step(self, only=None):
        for message in self.collect(only).values():
            self.server.take(message)
        self.post = self.server.close()
        return self

    def until(self, kind):
        while self.server.due not in (kind, None):
            self.step()
        return self
