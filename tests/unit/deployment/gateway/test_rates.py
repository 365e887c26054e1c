"""Token buckets, with a clock of their own."""

from hypothesis import given
from hypothesis import strategies as st

from foltr.deployment.gateway import connection_limits as rates
from foltr.deployment.gateway.connection_limits import Rates


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def passed(limit, name, many):
    return sum(limit.allow(name) for _ in range(many))


def test_a_burst_and_then_a_rate():
    clock = Clock()
    limit = Rates(2.0, 5.0, clock)
    assert passed(limit, "a", 20) == 5
    clock.now += 0.49
    assert passed(limit, "a", 20) == 0
    clock.now += 0.02
    assert passed(limit, "a", 20) == 1
    clock.now += 1000.0
    assert passed(limit, "a", 20) == 5, "no more than a burst is saved up"


def test_each_name_has_its_own_limit():
    limit = Rates(1.0, 3.0, Clock())
    assert passed(limit, "a", 9) == passed(limit, "b", 9) == passed(limit, 3, 9) == 3


@given(st.lists(st.floats(0.0, 5.0), max_size=60))
def test_never_more_than_burst_and_rate(pauses):
    clock = Clock()
    limit, many = Rates(3.0, 4.0, clock), 0
    for pause in pauses:
        clock.now += pause
        many += limit.allow("a")
    assert many <= 4.0 + 3.0 * sum(pauses) + 1e-6


def test_a_clock_that_stands_still_or_goes_back_gives_nothing():
    clock = Clock()
    limit = Rates(2.0, 2.0, clock)
    assert passed(limit, "a", 5) == 2
    clock.now -= 50.0
    assert passed(limit, "a", 5) == 0


def test_the_table_does_not_grow_without_end(monkeypatch):
    """Who was silent longest is forgotten: whoever floods the table stays in it."""
    monkeypatch.setattr(rates, "MOST", 100)
    limit = Rates(1.0, 2.0, Clock())
    assert passed(limit, "hostile", 9) == 2
    for i in range(1000):
        limit.allow(i)
        assert not limit.allow("hostile")
    assert len(limit._left) <= 100
