"""Specs told apart, and numbers as tables show them."""

import pytest

from foltr.core.system.tables import p_value, shade, signed
from foltr.report.spec_text import (
    LeftOut,
    changed,
    config_labels,
    equal,
    fields_within,
    short_label,
)

NNM = "NNM(rule=Krum(malicious=2, squared=False), malicious=2)"


def test_fields_at_any_depth():
    assert [name for name, _ in fields_within(NNM)] == [
        "rule",
        "malicious",
        "squared",
        "malicious",
    ]
    assert list(fields_within("no spec")) == list(fields_within("Mean()")) == []


def test_fields_change_or_go_at_any_depth():
    def bare(name, value):
        return LeftOut if name == "malicious" else value

    assert changed(NNM, bare) == "NNM(rule=Krum(squared=False))"
    assert changed("Krum(malicious=2)", bare) == "Krum()"
    assert changed("Text(of='malicious', to=(1, 2))", bare) == "Text(of='malicious', to=(1, 2))"
    models = "ByClicks(models=(Cascade(kind='perfect'), PositionBased(eta=0.5)), iid=False)"
    assert changed(models, lambda name, value: True if name == "iid" else value) == models.replace(
        "False", "True"
    )


@pytest.mark.parametrize("spec", [NNM, "Mean()", "not a spec", "Data(path='a, b')"])
def test_what_does_not_change_stays(spec):
    assert changed(spec, lambda _, value: value) == spec and equal(spec, spec)


def test_same_however_it_is_spaced():
    assert equal("Krum(malicious=2,squared = False)", "Krum(malicious=2, squared=False)")
    assert not equal("Krum(malicious=2)", "Krum(malicious=3)")


def test_a_name_with_what_distinguishes_it():
    own, everything = (f"LittleIsEnough(z=None, knowledge='{who}')" for who in ("own", "all"))
    assert short_label(own, [own, "Mean()"]) == "LittleIsEnough"
    assert short_label(own, [own, everything]) == "LittleIsEnough(knowledge='own')"
    assert short_label(NNM, [NNM]) == "NNM(Krum)"  # what is inside is always told
    squared = NNM.replace("False", "True")
    assert short_label(NNM, [NNM, squared]) == "NNM(Krum(squared=False))"
    assert short_label(NNM, [NNM, "NNM(rule=Median(), malicious=2)"]) == "NNM(Krum)"


def test_configs_in_words():
    configs = [
        {"ranker": "Linear()", "clients": 3, "rounds": 9},
        {"ranker": "MLP(hidden=64)", "clients": 3, "rounds": 9},
        {"ranker": "MLP(hidden=8)", "clients": 5, "rounds": 9, "roaming": True},
    ]
    assert config_labels(configs) == [
        "Linear, clients=3",
        "MLP(hidden=64), clients=3",
        "MLP(hidden=8), clients=5, roaming=True",
    ]
    assert config_labels(configs[:1]) == [""] and config_labels(
        configs[:1], always=("ranker",)
    ) == ["Linear"]


def test_numbers():
    assert [signed(number) for number in (0.0124, -0.0124, 0.0004, -0.0004, 0.0)] == [
        "+0.012",
        "\u22120.012",
        "0.000",
        "0.000",
        "0.000",
    ]
    assert [shade(change) for change in (None, 0.5, -0.01, -0.02, -0.05, -0.15, -0.3)] == [
        0,
        0,
        0,
        1,
        2,
        3,
        4,
    ]
    assert [p_value(p) for p in (None, 0.0, 0.0004, 0.0123, 1.0)] == [
        "",
        "p < 0.001",
        "p < 0.001",
        "p = 0.012",
        "p = 1",
    ]
