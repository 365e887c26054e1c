"""A sum goes on in another process: a client's state is all it needs, and is of one step."""

import json

import numpy as np
import pytest
from parties import SIGNED_STEPS, STEPS, Parties, plain_sum, small_terms

from foltr.secure_sum.client import SumClient
from foltr.secure_sum.messages import Refused


def handed_on(parties):
    """All clients, each as a process would find it that was only given its state."""
    for i, client in parties.clients.items():
        text = json.dumps(client.to_state())
        keys = parties.node_keys.get(i), parties.known
        parties.clients[i] = SumClient.from_state(parties.terms, json.loads(text), *keys)


@pytest.mark.parametrize("consistency", [False, True])
def test_the_sum_is_exact_if_every_step_is_made_by_a_new_process(consistency):
    terms = small_terms(5, consistency=consistency)
    parties = Parties(terms)
    for _ in SIGNED_STEPS if consistency else STEPS:
        handed_on(parties)
        parties.step()
    np.testing.assert_array_equal(
        parties.server.total(), plain_sum(terms, parties.words, range(terms.clients))
    )


def test_a_step_is_made_once_also_by_the_next_process():
    parties = Parties(small_terms(5))
    parties.step()
    handed_on(parties)
    with pytest.raises(Refused, match="SHARES is due"):
        parties.clients[0].advertise()


def test_nothing_secret_is_left_after_the_last_step():
    parties = Parties(small_terms(5))
    for _ in STEPS:
        parties.step()
    state = parties.clients[0].to_state()
    assert parties.clients[0].over
    assert not state["secrets"] and not state["seed"]
    assert not state["held"] and not state["channels"]
    handed_on(parties)
    assert parties.clients[0].over


def test_the_node_key_is_not_in_the_state():
    parties = Parties(small_terms(5), node_keys=True)
    assert parties.node_keys[0].hex() not in json.dumps(parties.clients[0].to_state())
