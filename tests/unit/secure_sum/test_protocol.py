"""The sum is exact, whoever drops out when; or it is withheld."""

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from parties import (
    MODEL,
    SIGNED_STEPS,
    STEPS,
    Parties,
    plain_sum,
    ring_terms,
    small_terms,
    some_words,
)

from foltr.core import Withheld
from foltr.secure_sum.in_process import secure_sum
from foltr.secure_sum.messages import Kind
from foltr.secure_sum.server import SumServer, longest
from foltr.secure_sum.terms import Terms
from property_settings import examples

NEVER = Kind.UNMASK + 1


def expected(terms, leaving):
    """Who is in the sum, or None where it must be withheld: from the rules of the protocol alone,
    by plain sets."""
    around = {i: {i, *terms.graph.neighbours(i)} for i in range(terms.clients)}
    there = set(range(terms.clients))
    kept = {}
    for step in SIGNED_STEPS if terms.consistency else STEPS:
        before = there
        there = {i for i in before if leaving.get(i, NEVER) > step}
        # a client goes on only among enough of those who were left before
        if step in (Kind.SHARES, Kind.MASKED):
            there = {i for i in there if len(around[i] & before) >= terms.quorum}
        if len(there) < terms.threshold:
            return None
        kept[step] = there
    survivors, shared, unmasking = kept[Kind.MASKED], kept[Kind.SHARES], kept[Kind.UNMASK]
    with_masks = {i for i in shared if i in survivors or around[i] & survivors}
    enough = all(len(around[i] & unmasking) >= terms.quorum for i in with_masks)
    return survivors if enough else None


def check(terms, leaving):
    words, survivors = some_words(terms), expected(terms, leaving)
    event("withheld" if survivors is None else "released")
    if survivors is None:
        with pytest.raises(Withheld):
            secure_sum(terms, words, MODEL, leaving, least=None)
    else:
        server = secure_sum(terms, words, MODEL, leaving, least=None)
        assert server.survivors == survivors
        np.testing.assert_array_equal(server.total(), plain_sum(terms, words, survivors))


@given(st.integers(2, 7).flatmap(lambda n: st.tuples(
    st.just(n), st.integers(n // 2 + 1, n), st.booleans(),
    st.dictionaries(st.integers(0, n - 1), st.sampled_from(SIGNED_STEPS), max_size=n // 2),
)))  # fmt: skip
@examples(60)
def test_any_drop_outs_on_the_complete_graph(case):
    n, threshold, consistency, leaving = case
    check(small_terms(n, threshold, consistency=consistency), leaving)


@given(st.sampled_from([(6, 4), (8, 4), (8, 6), (9, 2), (10, 4), (12, 6)]), st.data())
@examples(60)
def test_any_drop_outs_on_a_ring(size, data):
    n, degree = size
    quorum, threshold = (
        data.draw(st.integers(degree // 2 + 2, degree + 1)),
        data.draw(st.integers(n // 2 + 1, n)),
    )
    leaving = data.draw(st.dictionaries(st.integers(0, n - 1), st.sampled_from(STEPS), max_size=4))
    check(ring_terms(n, threshold, degree, quorum, data.draw(st.integers(0, 2**64 - 1))), leaving)


@pytest.mark.parametrize("step", SIGNED_STEPS)
@pytest.mark.parametrize("consistency", [False, True])
def test_drop_outs_at_each_step_by_hand(step, consistency):
    """Of six clients with a threshold of four, two may leave, at any step; a third one takes the
    sum with it."""
    terms = small_terms(6, 4, consistency=consistency)
    words = some_words(terms)
    leaving = {1: step, 4: step}
    after = {0, 2, 3, 5} if step <= Kind.MASKED else set(range(6))
    server = secure_sum(terms, words, MODEL, leaving)
    assert server.survivors == after
    np.testing.assert_array_equal(server.total(), plain_sum(terms, words, after))
    if step != Kind.SIGNED or consistency:
        with pytest.raises(Withheld, match=r"3 of 6 clients sent .*: 4 are needed"):
            secure_sum(terms, words, MODEL, {**leaving, 5: step})


def test_a_large_ring_with_drop_outs_at_every_step():
    terms = Terms.of(150, 2, 100, MODEL, seed=3)
    assert terms.degree < 149
    words = some_words(terms)
    leaving = {i: STEPS[i % 4] for i in range(0, 150, 6)}
    server = secure_sum(terms, words, MODEL, leaving)
    assert len(server.survivors) == 150 - sum(step <= Kind.MASKED for step in leaving.values())
    np.testing.assert_array_equal(server.total(), plain_sum(terms, words, server.survivors))


def test_everybody_adds_nothing_but_its_words():
    """The smallest session, and words at both ends of the range."""
    terms = small_terms(2, 2, words=2)
    words = {0: np.array([2**64 - 1, 0], np.uint64), 1: np.array([2, 2**63], np.uint64)}
    assert secure_sum(terms, words, MODEL).total().tolist() == [1, 2**63]
    assert words[0].tolist() == [2**64 - 1, 0]


def test_no_part_of_a_sum_is_released_before_the_end_or_after_a_failure():
    parties = Parties(small_terms(5, 4))
    for step in STEPS:
        with pytest.raises(Withheld, match="there is no sum"):
            parties.server.total()
        if step != Kind.UNMASK:
            parties.step()
    for message in list(parties.collect().values())[:3]:
        parties.server.take(message)
    with pytest.raises(Withheld, match="3 of 5 clients sent UNMASK: 4 are needed"):
        parties.server.close()
    for call in (parties.server.total, parties.server.close):
        with pytest.raises(Withheld):
            call()
    left = [value for value in vars(parties.server).values() if isinstance(value, np.ndarray)]
    assert (
        not any(array.size for array in left)
        and not parties.server._revealed
        and not parties.server._shares
    )


def test_terms_travel_as_bytes_and_name_the_session():
    terms = Terms.of(200, 4, 134, MODEL, round=9)
    again = Terms.from_bytes(terms.to_bytes())
    assert again == terms and again.session == terms.session
    assert Terms.of(200, 4, 134, MODEL, round=9).session != terms.session


@pytest.mark.parametrize("words", [1, 40, 4000])
@pytest.mark.parametrize("how", ["complete", "signed", "ring"])
def test_no_message_of_a_client_is_longer_than_the_longest(monkeypatch, how, words):
    """And one of them is as long."""
    terms = small_terms(5, words=words, consistency=how == "signed")
    if how == "ring":
        terms = ring_terms(9, 5, 4, 4, words=words)
    sizes, take = [], SumServer.take
    monkeypatch.setattr(
        SumServer, "take", lambda self, text: (sizes.append(len(text)), take(self, text))[1]
    )
    secure_sum(terms, some_words(terms), MODEL, least=None)
    assert max(sizes) == longest(terms)
