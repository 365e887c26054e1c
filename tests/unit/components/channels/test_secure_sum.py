"""The channel: one row comes out, the same bits with masks and without, or nothing."""

import subprocess
import sys
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import asked_of
from foltr.components.aggregators.mean import Mean
from foltr.components.channels import secure_sum as module
from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.sgd import SGD
from foltr.core import Answers, Ask, Cohort, Withheld
from foltr.core.errors import Mistake
from foltr.core.federation import Delivery, Server, federate
from foltr.core.seeds import stream
from foltr.secure_sum import in_process
from foltr.secure_sum.client import SumClient
from foltr.secure_sum.terms import model_digest
from property_settings import examples


def cohort(n, p=5, seed=0, scale=1.0):
    draws = np.random.default_rng(seed)
    return Cohort(
        np.arange(n) * 3,
        (draws.normal(size=(n, p)) * scale).astype(np.float32),
        draws.integers(1, 9, n) * 1.0,
    )


def same(one, other):
    np.testing.assert_array_equal(one.updates, other.updates)
    np.testing.assert_array_equal(one.weights, other.weights)


def test_one_row_that_is_the_weighted_mean():
    """Weights 1 and 3, updates (2, 0) and (0, 4): (0.5, 3), weight 4; exact, as all of it is whole
    steps."""
    got = SecureSum().carry(
        Cohort(np.array([7, 9]), np.array([[2, 0], [0, 4]], np.float32), np.array([1.0, 3.0])),
        asked_of(2),
        stream(1, "channel"),
    )
    assert (
        got.clients.tolist() == [-1]
        and got.updates.tolist() == [[0.5, 3.0]]
        and got.weights.tolist() == [4.0]
    )
    assert got.updates.dtype == np.float64


@given(
    st.integers(2, 8),
    st.integers(0, 2**32),
    st.sampled_from([16, 32, 40]),
    st.booleans(),
    st.data(),
)
@examples(40)
def test_masks_change_no_bit(asked, seed, bits, consistency, data):
    plain = SecureSum(fraction_bits=bits, consistency=consistency)
    masked = SecureSum(fraction_bits=bits, consistency=consistency, masks=True)
    sent = cohort(data.draw(st.integers(plain.fewest(asked), asked)), seed=seed)
    rng = stream(seed, "channel")
    got = plain.carry(sent, asked_of(asked), rng)
    same(got, masked.carry(sent, asked_of(asked), stream(seed, "channel")))
    exact = np.average(sent.updates.astype(float), axis=0, weights=sent.weights)
    assert (
        np.abs(got.updates[0] - exact).max()
        <= len(sent) / 2 * 2.0**-bits / sent.weights.sum() + 1e-15
    )
    assert got.weights[0] == sent.weights.sum()


def released(masks, arrived, seed):
    """Whether a sum comes out when so many of 130 clients arrive, with a threshold of 66."""
    try:
        SecureSum(threshold=0.505, masks=masks).carry(
            cohort(arrived, 1), asked_of(130), stream(seed, "channel")
        )
    except Withheld:
        return False
    return True


def test_masks_change_no_decision_on_a_ring():
    """Too many gone, some neighbourhood has too few survivors for one seed and enough for another:
    with masks and without, the same rounds are withheld."""
    outcomes = {released(False, 76, seed): seed for seed in range(40)}
    assert set(outcomes) == {True, False}
    assert all(released(True, 76, seed) == outcome for outcome, seed in outcomes.items())


def test_masks_change_no_bit_on_a_ring():
    sent = cohort(120)
    same(
        SecureSum().carry(sent, asked_of(130), stream(1, "c")),
        SecureSum(masks=True).carry(sent, asked_of(130), stream(1, "c")),
    )


@pytest.mark.parametrize("masks", [False, True])
def test_below_the_threshold_nothing_is_released(masks):
    channel = SecureSum(masks=masks)
    for arrived in (0, 1, 6):
        with pytest.raises(Withheld, match=f"{arrived} of 10 clients arrived: 7 are needed"):
            channel.carry(cohort(arrived), asked_of(10), stream(1, "channel"))
    assert len(channel.carry(cohort(7), asked_of(10), stream(1, "channel"))) == 1


def test_the_fewest():
    assert [SecureSum().fewest(n) for n in (2, 3, 4, 9, 10, 99, 100, 1000)] == [
        2,
        2,
        3,
        6,
        7,
        66,
        67,
        667,
    ]
    assert [SecureSum(threshold=0.51).fewest(n) for n in (2, 3, 4, 100)] == [2, 2, 3, 51]
    assert SecureSum(threshold=1.0).fewest(7) == 7
    for asked in (0, 1):
        with pytest.raises(Mistake, match="ask at least 2 clients"):
            SecureSum().fewest(asked)


@pytest.mark.parametrize("threshold", [0.0, 0.5, -1.0, 1.01])
def test_a_threshold_that_means_nothing_is_refused(threshold):
    with pytest.raises(Mistake, match=r"threshold must be in \(1/2, 1\]"):
        SecureSum(threshold=threshold)


def test_bad_fraction_bits_are_refused():
    for bits in (-1, 53):
        with pytest.raises(Mistake, match=r"fraction_bits must be in 0 \.\. 52"):
            SecureSum(fraction_bits=bits)


@pytest.mark.parametrize("masks", [False, True])
def test_what_cannot_be_added_is_refused(masks):
    channel, sent, rng = SecureSum(masks=masks), cohort(3), stream(1, "channel")
    words = Cohort(sent.clients, sent.updates.view(np.uint32), sent.weights)
    with pytest.raises(Mistake, match="messages of uint32 cannot be added up"):
        channel.carry(words, asked_of(3), rng)
    for weight in (-1.0, np.nan):
        with pytest.raises(Mistake, match="in a secure sum: it must be >= 0"):
            channel.carry(
                Cohort(sent.clients, sent.updates, np.array([1.0, weight, 1.0])), asked_of(3), rng
            )
    with pytest.raises(Mistake, match="add up to nothing"):
        channel.carry(Cohort(sent.clients, sent.updates, np.zeros(3)), asked_of(3), rng)
    with pytest.raises(Mistake, match="3 clients answered, but only 2 were asked"):
        channel.carry(sent, asked_of(2), rng)
    for value, reason in (
        (np.nan, "nan cannot be part"),
        (1e10, "outside the range of a secure sum: with 3 clients"),
    ):
        spoilt = sent.updates.copy()
        spoilt[1, 2] = value
        with pytest.raises(Mistake, match=reason):
            channel.carry(Cohort(sent.clients, spoilt, sent.weights), asked_of(3), rng)


def test_order_does_not_matter_and_nothing_is_written():
    sent = cohort(9)
    kept = sent.updates.copy(), sent.weights.copy()
    turned = Cohort(sent.clients[::-1], sent.updates[::-1], sent.weights[::-1])
    for masks in (False, True):
        channel = SecureSum(masks=masks)
        same(
            channel.carry(sent, asked_of(10), stream(1, "c")),
            channel.carry(turned, asked_of(10), stream(1, "c")),
        )
    assert (sent.updates == kept[0]).all() and (sent.weights == kept[1]).all()


def test_many_clients_are_added_in_pieces():
    sent = cohort(20_000, 46)
    tracemalloc.start()
    SecureSum().carry(sent, asked_of(20_000), stream(1, "channel"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < sent.updates.nbytes


def test_masks_say_what_they_need(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(
        Mistake, match=r"needs cryptography: pip install 'foltr\[secure\]', or leave masks out"
    ):
        SecureSum(masks=True)
    SecureSum()


def test_without_masks_no_cryptography_is_loaded():
    code = (
        "import sys, numpy as np\n"
        "from foltr.components.channels.secure_sum import SecureSum\n"
        "from foltr.core import Ask, Cohort\n"
        "from foltr.core.seeds import stream\n"
        "u = np.ones((200, 2), np.float32)\n"
        "sent = Cohort(np.arange(200), u, np.ones(200))\n"
        "SecureSum().carry(sent, Ask(np.zeros(2, np.float32), 0, 210), stream(1, 'c'))\n"
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("threshold", [0.51, 0.55, 0.6, 0.7, 0.9, 1.0])
def test_simulated_devices_accept_the_experiments_own_threshold(threshold):
    plain, masked = SecureSum(threshold=threshold), SecureSum(threshold=threshold, masks=True)
    for asked in (2, 3, 7, 10, 20):
        sent = cohort(plain.fewest(asked))
        same(
            plain.carry(sent, asked_of(asked), stream(1, "c")),
            masked.carry(sent, asked_of(asked), stream(1, "c")),
        )


def test_the_terms_and_every_client_are_given_what_the_cohort_was_sent(monkeypatch):
    made = []

    def client(terms, index, model, *others, **floor):
        made.append((terms.model, model))
        return SumClient(terms, index, model, *others, **floor)

    monkeypatch.setattr(in_process, "SumClient", client)
    model = np.arange(5, dtype=np.float32)
    ask = Ask(model, 0, 4)
    same(
        SecureSum(masks=True).carry(cohort(4), ask, stream(1, "c")),
        SecureSum().carry(cohort(4), ask, stream(1, "c")),
    )
    assert len(made) == 4
    for named, given_ in made:
        assert named == model_digest(model)
        np.testing.assert_array_equal(given_, model)


class Still:
    """An engine without searches: every client sends its own row, whatever it is sent."""

    def __init__(self) -> None:
        self.broadcast, self.rows = [], np.eye(4, 5, dtype=np.float32)

    def collect(self, ask, clients):
        self.broadcast.append(ask.params.copy())
        return Answers(clients, Cohort(clients, self.rows[clients], np.ones(len(clients))), None)


@dataclass(frozen=True)
class Listening(SecureSum):
    """A channel of somebody's own."""

    def carry(self, cohort, ask, rng):
        HEARD.append(ask.params)
        return super().carry(cohort, ask, rng)


HEARD: list[np.ndarray] = []


@pytest.mark.parametrize("rewrite", [None, lambda sent, ask, rng: sent.sending(2 * sent.updates)])
def test_a_round_gives_the_channel_what_the_clients_were_sent(rewrite):
    server, params = Server(PDGD(), Mean(), SGD()), {}
    for name, channel in (
        ("heard", Listening()),
        ("masked", SecureSum(masks=True)),
        ("plain", SecureSum()),
    ):
        HEARD.clear()
        engine, recorded = Still(), []
        state = federate(
            server, engine, server.init(np.full(5, 0.1)), 3, lambda t: np.arange(4), 1,
            lambda state, sent, observed, recorded=recorded: recorded.append(sent),
            Delivery(rewrite=rewrite, dropout=0.1, channel=channel),
        )  # fmt: skip
        params[name] = state.params
        assert state.withheld == 0 and len(recorded) == 3
        if name == "heard":
            assert (
                len(HEARD) == 3 and HEARD[0].dtype == np.float32 and (HEARD[0] != HEARD[1]).any()
            )
            for heard, sent in zip(HEARD, engine.broadcast, strict=True):
                np.testing.assert_array_equal(heard, sent)
    np.testing.assert_array_equal(params["masked"], params["plain"])
    np.testing.assert_array_equal(params["heard"], params["plain"])


def test_without_a_channel_nothing_is_made_of_a_cohort():
    sent = cohort(4)
    assert Delivery().carried(sent, asked_of(4), stream(1, "c")) is sent
