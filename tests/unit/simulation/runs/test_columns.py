"""Which measures there are, and how they are asked for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import foltr
from foltr.core.errors import Mistake
from foltr.simulation.runs.columns import check_labels, columns_of, parse_measures, usual_columns
from tiny_data import made

SOME = [
    foltr.nDCG(k=5),
    foltr.nDCG(k=None),
    foltr.ERR(k=20),
    foltr.MAP(),
    foltr.P(k=3, rel=2),
    foltr.R(k=1),
    foltr.Divergence(),
    foltr.RoundsTo(level=0.4, of="mrr@10"),
]


@given(st.lists(st.sampled_from(SOME), unique=True))
def test_one_text_or_several_specs_or_measures(chosen):
    expected = tuple(chosen)
    assert parse_measures(", ".join(map(repr, chosen))) == expected
    assert parse_measures([repr(each) for each in chosen]) == expected
    assert parse_measures(chosen) == expected
    assert parse_measures([*chosen, *chosen]) == expected


def test_what_every_run_has_is_not_asked_for_again():
    assert parse_measures("nDCG(k=10), MaxRR(), nDCG(k=5)") == (foltr.nDCG(k=5),)
    assert parse_measures("") == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nDCG(k=5", "not a list of measures: 'nDCG(k=5'"),
        ("ndcg(k=5)", "no measure is called 'ndcg': did you mean 'nDCG'?"),
        ("nDCG@5", "not a measure: 'nDCG @ 5'"),
        ("nDCG(k=0)", "nDCG: k must be >= 1, got 0"),
        ("P(k=5, rel=0)", "P: rel must be >= 1, got 0"),
        ("Mean()", "no measure is called 'Mean': it is an aggregator"),
        ("1 +", "not a list of measures"),
        ("nDCG(j=5)", "nDCG has no field 'j'"),
    ],
)
def test_what_is_no_measure_is_refused(text, told):
    with pytest.raises(Mistake, match=re.escape(told)):
        parse_measures(text)


def test_the_usual_columns_and_their_labels():
    assert list(usual_columns())[:3] == ["ndcg@10", "mrr@10", "expected_maxrr"]
    labels = {name: column.label for name, column in usual_columns().items()}
    assert labels["ndcg@10"] == "offline nDCG@10"
    assert labels["train_ndcg@10"] == "nDCG@10 on the training queries"
    assert labels["validation_mrr@10"] == "MRR@10 on the validation queries"
    assert labels["maxrr"] == "online MaxRR (mean of the last 5 % of rounds)"
    assert len(set(labels.values())) == len(labels)


def test_columns_of_measures_that_were_asked_for():
    found = columns_of(["nDCG(k=5)", "BytesSent()", "Unknown(k=3)", "not ( a spec"])
    new = set(found) - set(usual_columns())
    assert new == {"ndcg@5", "train_ndcg@5", "validation_ndcg@5", "bytes_sent"}
    assert found["bytes_sent"].label == "bytes sent to the server (sum over rounds)"
    assert found["ndcg@5"].follows_empty and not found["bytes_sent"].follows_empty


def test_labels_that_the_data_lacks_and_lists_that_are_too_short():
    data = made([[0, 1, 1, 0, 1]], [3, 2], 2)
    with pytest.raises(Mistake, match=r"P\(k=10, rel=2\) counts labels of 2 or more.* is 1:"):
        check_labels([foltr.P(rel=2)], data, "the test queries")
    notes = check_labels([foltr.nDCG(k=2), foltr.nDCG(k=5), foltr.MAP()], data, "the test queries")
    assert notes == (
        "nDCG@5: no query of the test queries has more than 3 documents, so ranks 4 to 5 are"
        " empty",
    )


def test_two_measures_of_one_name():
    both = foltr.nDCG(k=5), foltr.nDCG(k=5)
    assert parse_measures(both) == both[:1]
    near = foltr.RoundsTo(level=0.1234567), foltr.RoundsTo(level=0.1234568)
    with pytest.raises(Mistake, match=r"are both called 'rounds_to_0\.123457': rename one"):
        parse_measures(near)
