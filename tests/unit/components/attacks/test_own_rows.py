"""Attacks that need no knowledge look at nobody; draws of one malicious client are not those of
another."""

from dataclasses import replace

import numpy as np
import pytest

from asking import asked_of
from foltr.components.attacks.compromised_model import CompromisedModel
from foltr.components.attacks.data_poisoning import DataPoisoning
from foltr.components.attacks.fang import FangTrimmed
from foltr.core import Cohort
from foltr.core.errors import Mistake
from foltr.core.seeds import stream
from foltr.core.spec import attacks

pytestmark = pytest.mark.usefixtures("both_ways")

PARAMS = np.array([1.0, -1.0, 0.5], np.float32)
ASK = asked_of(10, PARAMS)


def a_round():
    updates = stream(3, "updates").normals(30).reshape(10, 3).astype(np.float32)
    return Cohort(np.arange(10), updates, np.ones(10)), np.arange(10) % 3 == 0


@pytest.mark.parametrize("attack", [CompromisedModel(), DataPoisoning()])
def test_each_client_for_itself(attack):
    c, malicious = a_round()
    together = attack.craft(c, malicious, ASK, stream(1, "attack"))
    for row, i in enumerate(np.flatnonzero(malicious)):
        alone = attack.craft(c.only(np.array([i])), np.array([True]), ASK, stream(1, "attack"))
        np.testing.assert_array_equal(alone, together[[row]])


@pytest.mark.parametrize("knowledge", ["own", "all"])
def test_malicious_clients_draw_for_themselves(knowledge):
    c, malicious = a_round()
    sent = FangTrimmed(knowledge=knowledge).craft(c, malicious, ASK, stream(1, "attack"))
    assert all((sent[0] != row).all() for row in sent[1:])
    later = FangTrimmed(knowledge=knowledge).craft(c, malicious, ASK, stream(2, "attack"))
    assert (sent != later).all()
    numbered = replace(c, clients=c.clients + 1)
    assert (
        sent
        != FangTrimmed(knowledge=knowledge).craft(numbered, malicious, ASK, stream(1, "attack"))
    ).all()


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("CompromisedModel(z=0)", "z must be > 0, got 0.0"),
        ("InnerProduct(scale=-1)", "scale must be > 0, got -1.0"),
        ("FangTrimmed(b=1)", "b must be > 1, got 1.0"),
        ("FangKrum(start=0)", "start must be > 0, got 0.0"),
        ("Tailored(rule=Mean(), reach=0)", "reach must be > 0, got 0.0"),
        ("LittleIsEnough(knowledge='some')", "'some' is none of 'own', 'all'"),
        ("DataPoisoning(clicks=Mean())", "no click model is called 'Mean': it is an aggregator"),
        ("LIE()", "it is LittleIsEnough"),
        ("IPM()", "it is InnerProduct"),
    ],
)
def test_mistakes_are_refused(spec, says):
    with pytest.raises(Mistake, match=says.replace("(", r"\(")):
        attacks.build(spec)
