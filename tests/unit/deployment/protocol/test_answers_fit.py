"""Which answers fit an ask, against the definition: the header with the ask's kind, clients,
payload and (if it is an earlier one) model is that of the ask."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from foltr.deployment.protocol.frames import ANSWERS, Frame, Kind

few = st.integers(0, 3)
named = st.sampled_from([bytes(16), b"1" * 16])
frames = st.builds(
    Frame,
    kind=st.sampled_from([Kind.LEARN, Kind.LEARNED, Kind.REFUSED, Kind.ROLL, Kind.PRESENT]),
    federation=named,
    round=few,
    model_round=few,
    model=named,
    features=named,
    nonce=named,
    n=few,
    clients=st.sets(few).map(sorted).map(tuple),
    payload=st.sampled_from([b"", b"more"]),
)


def by_definition(answer, ask, behind):
    if answer.kind not in (ANSWERS.get(ask.kind), Kind.REFUSED):
        return False
    header = replace(answer, kind=ask.kind, clients=ask.clients, payload=ask.payload)
    if ask.round - behind <= answer.model_round < ask.model_round:
        header = replace(header, model_round=ask.model_round, model=ask.model)
    return header == ask


@given(frames, frames, st.integers(0, 2))
def test_headers(answer, ask, behind):
    assert answer.fits(ask, behind) == by_definition(answer, ask, behind)


@given(frames, frames, st.integers(0, 2), st.sampled_from(["round", "nonce", "model", "n"]))
def test_answers_that_differ_in_one_field(other, ask, behind, name):
    kind = ANSWERS.get(ask.kind, Kind.REFUSED)
    answer = replace(ask, kind=kind, clients=other.clients, payload=other.payload)
    answer = replace(answer, **{name: getattr(other, name)})
    fits = by_definition(answer, ask, behind)
    assert answer.fits(ask, behind) == fits
    asked = ask.kind == Kind.ROLL or set(answer.clients) <= set(ask.clients)
    assert answer.answers(ask, behind) == (fits and asked)
