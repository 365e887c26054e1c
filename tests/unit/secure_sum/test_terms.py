"""Terms that protect nobody, or less than a device wants, are refused before anything is sent."""

import pytest
from parties import MODEL, ring_terms, small_terms, some_words

from foltr.components.channels.secure_sum import SecureSum
from foltr.core.errors import Mistake
from foltr.secure_sum.client import SumClient
from foltr.secure_sum.in_process import secure_sum
from foltr.secure_sum.server import SumServer
from foltr.secure_sum.terms import LEAST, Terms


def test_terms_that_protect_nobody_are_refused():
    good = dict(
        id=bytes(16),
        round=0,
        model=bytes(32),
        clients=10,
        words=3,
        threshold=7,
        degree=9,
        quorum=7,
        seed=0,
        fraction_bits=32,
        consistency=False,
    )
    Terms(**good)
    ring = {"degree": 4, "quorum": 4}
    Terms(**{**good, **ring})
    bad = (
        ({"clients": 1, "degree": 0}, "two clients at least"),
        ({"clients": 10**6 + 1}, "a million at most"),
        ({"threshold": 5, "quorum": 5}, "more than half of 10"),
        ({"threshold": 11, "quorum": 11}, "at most all"),
        ({"quorum": 2}, "quorum is the threshold 7"),
        ({**ring, "quorum": 3}, "quorum must be in 4 .. 5"),
        ({**ring, "degree": 3}, "even degree"),
        ({**ring, "consistency": True}, "complete graph only"),
        ({"words": 0}, "words"),
        ({"round": -1}, "round"),
        ({"fraction_bits": 53}, "fraction_bits"),
        ({"id": b"x"}, "16 bytes"),
        ({"seed": 2**64}, "seed"),
        ({"model": b"x"}, r"32 bytes of its SHA-256 \(model_digest\), got 1"),
    )
    for changes, reason in bad:
        with pytest.raises(Mistake, match=reason):
            Terms(**{**good, **changes})
    with pytest.raises(Mistake, match="no terms"):
        Terms.from_bytes(b"short")


def test_the_consistency_step_needs_node_keys():
    terms = small_terms(3, 2, consistency=True)
    with pytest.raises(Mistake, match="needs a node key, and everybody's public one"):
        SumClient(terms, 0, MODEL, smallest=2)
    with pytest.raises(Mistake, match="needs everybody's public node key"):
        SumServer(terms)
    with pytest.raises(Mistake, match="client 3 is not among the 3"):
        SumClient(terms, 3, MODEL, smallest=2)


def test_a_client_refuses_terms_that_protect_too_little():
    """Two neighbours who collude would know all that masks a client between them."""
    weak = ring_terms(1000, 667, 2, 3)
    with pytest.raises(
        Mistake, match="2 neighbours and a quorum of 3 protect too little among 1000 clients"
    ):
        SumClient(weak, 0, MODEL)
    SumClient(weak, 0, MODEL, least=None)
    good = Terms.of(1000, 3, 667, MODEL)
    SumClient(good, 0, MODEL)
    with pytest.raises(Mistake, match=r"sums of 667 of 1000 clients are fewer than the part 0\.9"):
        SumClient(good, 0, MODEL, least=0.9)


@pytest.mark.parametrize("threshold", [51, 60, 66])
def test_a_client_has_a_floor_of_its_own(threshold):
    """The server's default is two thirds. A device does not go below that because a server says
    so."""
    terms = Terms.of(100, 3, threshold, MODEL)
    reason = (
        rf"sums of {threshold} of 100 clients are fewer than the part 0\.666667 .*: the threshold"
        r" must be 67"
    )
    with pytest.raises(Mistake, match=reason):
        SumClient(terms, 0, MODEL, smallest=2)
    with pytest.raises(Mistake, match=reason):
        secure_sum(terms, some_words(terms), MODEL)
    SumClient(terms, 0, MODEL, least=0.5)  # whoever wants less says so on the device


def test_what_the_channel_asks_for_by_default_every_device_accepts():
    for clients in (2, 3, 4, 5, 6, 7, 9, 10, 33, 99, 100, 128):
        SumClient(Terms.of(clients, 3, SecureSum().fewest(clients), MODEL), 0, MODEL, smallest=2)
    assert SecureSum().threshold == LEAST


@pytest.mark.parametrize(("clients", "threshold"), [(2, 2), (9, 9), (14, 9)])
def test_a_device_has_a_floor_in_numbers_too(clients, threshold):
    """A sum of two is one client's update for the other one, whatever part of the clients that
    is."""
    terms = Terms.of(clients, 3, threshold, MODEL)
    with pytest.raises(Mistake, match="10 are wanted at least"):
        SumClient(terms, 0, MODEL, least=0.5)
    SumClient(terms, 0, MODEL, least=0.5, smallest=2)  # whoever wants less says so on the device
