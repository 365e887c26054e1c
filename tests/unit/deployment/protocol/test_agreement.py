"""What a federation agrees on: its name, and how two agreements differ."""

import json
from dataclasses import fields

import pytest
from small_federation import FEATURES, agreed

from foltr.components.channels.secure_sum import SecureSum
from foltr.components.learners.es import ES
from foltr.components.learners.pdgd import PDGD
from foltr.components.privatizers.gamma_shares import GammaShares
from foltr.components.privatizers.gaussian import Gaussian
from foltr.components.rankers.mlp import MLP
from foltr.core.errors import Mistake
from foltr.deployment.protocol.agreement import Agreement

OTHERS = {
    "ranker": MLP(hidden=2),
    "learner": PDGD(sessions=2, lr=0.5),
    "features": FEATURES[::-1],
    "asked": 4,
    "fewest": 2,
    "sessions": 3,
    "rounds": 5,
    "privacy": Gaussian(noise=1.0, clip=1.0, where="shares"),
    "channel": SecureSum(),
    "history": 2,
    "noise": "address",
    "separation": 3,
}


def test_every_field_is_tried():
    assert OTHERS.keys() == {field.name for field in fields(Agreement)}


@pytest.mark.parametrize("name", OTHERS)
def test_every_field_is_in_the_name_of_the_federation_and_in_its_differences(name):
    changes = {name: OTHERS[name]} | ({"fewest": 2} if name == "channel" else {})
    one, other = agreed(fewest=2) if name == "channel" else agreed(), agreed(**changes)
    assert one.id != other.id and len(one.id) == 16
    (line,) = one.differences(other.text, "here", "there")
    assert line.startswith(f"{name} ") and " here, " in line and line.endswith(" there")
    assert one.differences(one.text, "here", "there") == []
    assert agreed().id == agreed().id


def test_the_features_alone_are_hashed_as_well():
    assert agreed().feature_hash == agreed(asked=9).feature_hash
    assert agreed().feature_hash != agreed(features=FEATURES[::-1]).feature_hash


@pytest.mark.parametrize(
    "other", ["", "[]", "null", "{", "[" * 10**5, '"' + "a" * 10**5, "1" * 10**5, "\x00", "NaN"]
)
def test_what_another_party_sends_need_not_be_an_agreement(other):
    assert agreed().differences(other, "here", "there") == ["the other agreement cannot be read"]


def test_differences_are_printable_and_short():
    nested = "[" * 500 + "]" * 500
    other = f'{{"\\u001b[31m": "\\u0007", "asked": {nested}, "rounds": "{"x" * 10**5}"}}'
    found = agreed().differences(other, "here", "there")
    assert all(len(line) < 600 and line.isprintable() and line.isascii() for line in found)
    many = json.dumps({str(i): i for i in range(1000)})
    assert len(agreed().differences(many, "here", "there")) < 1020


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"features": ()}, "1 .. 1000000 names"),
        ({"features": ("a", "a")}, "one name"),
        ({"asked": 0}, "asked must be"),
        ({"asked": 10**6 + 1}, "asked must be"),
        ({"fewest": 0}, "fewest must be"),
        ({"fewest": 4}, "fewest must be"),
        ({"sessions": 0}, "sessions must be"),
        ({"rounds": 0}, "rounds must be"),
        ({"rounds": 2**31}, "rounds must be"),
        ({"history": 0}, "history must be >= 1, got 0"),
        ({"noise": "none"}, "noise"),
        ({"channel": SecureSum(), "fewest": 1}, "fewest must be >= 2, got 1"),
        ({"channel": SecureSum(), "fewest": 2, "learner": ES()}, "sum is no update"),
        ({"privacy": GammaShares(epsilon=1.0, sensitivity=1.0), "learner": ES()}, "ball"),
    ],
)
def test_what_cannot_be_agreed(changes, told):
    with pytest.raises(Mistake, match=told):
        agreed(**changes)


@pytest.mark.parametrize("weight", [0.0, -1.0, 2.5, float("nan"), float("inf")])
def test_a_weight_is_at_most_the_agreed_searches(weight):
    agreed().check_weight(0.5)
    agreed().check_weight(2)
    with pytest.raises(Mistake, match="weight"):
        agreed().check_weight(weight)


def test_where_noise_needs_equal_weights_there_is_one():
    equal = agreed(privacy=Gaussian(noise=1.0, clip=1.0, where="shares"))
    assert equal.privacy.needs_equal_weights
    equal.check_weight(2.0)
    with pytest.raises(Mistake, match="must be 2, got 1"):
        equal.check_weight(1)


@pytest.mark.parametrize("name", OTHERS)
def test_an_agreement_can_be_read_from_its_text(name):
    changes = {name: OTHERS[name]} | ({"fewest": 2} if name == "channel" else {})
    one = agreed(**changes)
    assert Agreement.from_text(one.text) == one and Agreement.from_text(one.text).id == one.id


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not the text of an agreement"),
        ("[]", "not the text of an agreement"),
        ('{"features": 3}', "not the text of an agreement"),
        (agreed().text.replace("Linear()", "Unheard()"), "cannot take part"),
        (agreed().text.replace('"asked": 3', '"asked": "3"'), "cannot take part|canonical"),
        (agreed().text + " ", "canonical"),
        (agreed().text.replace('"rounds": 4', '"rounds": 4, "new": 1'), "not the text|cannot"),
    ],
)
def test_another_text_is_refused(text, told):
    with pytest.raises(Mistake, match=told):
        Agreement.from_text(text)
