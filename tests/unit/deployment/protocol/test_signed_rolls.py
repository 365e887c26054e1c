"""Signed sums of a federation with a gateway: a device without a pinned key voids no sum."""

from dataclasses import replace

import numpy as np
import pytest
from small_federation import PARAMS, Small, agreed, participant_of

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from federation_in_process import InProcessGrid
from foltr.components.channels.secure_sum import SecureSum
from foltr.core import Ask
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.exchange import Members
from foltr.deployment.protocol.frames import Frame, Kind, Welcome, write_ids
from foltr.deployment.protocol.sums import SumParticipant
from foltr.secure_sum.keys import node_key

AGREED = agreed(asked=9, fewest=6, channel=SecureSum(consistency=True), rounds=9)
SEATS = {1: range(0, 4), 2: range(4, 8), 3: range(8, 10)}
GATEWAY = 3


class Filling(Members):
    def filled(self, clients, n):
        others = [id for id in self.keys if id not in clients]
        return np.append(clients, others[: n - len(clients)])


class Here:
    """Two nodes of four clients, and a gateway of two; each signs with one key. `known` is the
    server's list of keys, `pinned` whether it has those of devices."""

    def __init__(self, without=(), pinned=True):
        pairs = {node: node_key() for node in SEATS}
        keys = {id: pairs[node][1] for node, own in SEATS.items() for id in own}
        self.known = {id: key for id, key in keys.items() if id not in without}
        self.participants = {}
        for node, own in SEATS.items():
            sums = SumParticipant(AGREED.protocol, AGREED.fewest, pairs[node][0], self.keys)
            self.participants[node] = participant_of(AGREED, Small(10), own, None, [], sums)
        grid = InProcessGrid({node: self.by(node) for node in SEATS})
        self.engine = Flower(
            grid,
            AGREED,
            Filling(SEATS, self.known, pinned),
            message=grid.create_message,
            patience=0.0,
        )

    def keys(self, clients):
        return {int(id): self.known[int(id)] for id in clients if int(id) in self.known}

    def by(self, node):
        def answer(text):
            ask = Frame.from_bytes(text)
            if ask.kind == Kind.ROLL:
                nobody = write_ids(np.empty(0, np.int64))
                return ask.answer(Kind.PRESENT, tuple(SEATS[node]), nobody).to_bytes()
            found = Frame.from_bytes(self.participants[node].answer(text))
            if ask.kind == Kind.HELLO and node == GATEWAY:
                found = replace(found, payload=Welcome(roll=True).to_bytes())
            return found.to_bytes()

        return answer

    def round(self, clients):
        self.engine.collect(Ask(PARAMS, 0, 9), np.array(clients))
        return self.engine.took_part.tolist()


def test_a_device_that_is_not_pinned_is_left_out():
    here = Here(without=[9])
    assert here.round([0, 1, 2, 3, 4, 5, 6, 8, 9]) == [0, 1, 2, 3, 4, 5, 6, 8]
    assert not here.engine.failures


def test_a_node_that_says_it_is_a_gateway_does_not_void_the_sum():
    here = Here(pinned=False)
    assert here.round([0, 1, 2, 3, 4, 5, 6, 8, 9]) == [0, 1, 2, 3, 4, 5, 6, 8, 9]


def test_devices_that_sign_by_another_key_drop_out():
    here = Here(pinned=False)
    here.participants[GATEWAY].sums.key = node_key()[0]
    assert here.round([0, 1, 2, 3, 4, 5, 6, 8, 9]) == [0, 1, 2, 3, 4, 5, 6]
    assert here.engine.failures["sum"] == 2
