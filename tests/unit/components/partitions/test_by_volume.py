"""Type 4: who searches how often."""

import numpy as np
import pytest

from foltr.components.partitions.by_intent import ByIntent
from foltr.components.partitions.by_label import ByLabel
from foltr.components.partitions.by_volume import ByVolume
from foltr.components.partitions.sharing import Sharing
from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.core.spec import partitions
from tiny_data import copies_nothing, made

DATA = made([np.arange(60) % 5], [10] * 6, 5)
INTENTS = made(np.eye(4, 20), [10, 10], 2)


def volumes(partition, data, clients):
    return partition.population(data, Cascade(), clients, 5, 1).sessions.tolist()


def test_client_c_searches_as_often_as_its_turn_says():
    assert volumes(ByVolume(), DATA, 5) == [1, 3, 5, 7, 9]
    assert volumes(ByVolume(sessions=(2, 8)), DATA, 5) == [2, 8, 2, 8, 2]
    assert volumes(ByVolume(iid=True), DATA, 5) == [5] * 5
    # whatever the learner says
    assert volumes(ByVolume(sessions=(2, 8, 2), iid=True), DATA, 6) == [4] * 6


def test_mixed_with_others():
    """The thesis's mixture with four intents, whose twin searches more in all, and one of equal
    totals."""
    mixed, twin = ByVolume(of=ByIntent()), ByVolume(of=ByIntent(iid=True), iid=True)
    assert volumes(mixed, INTENTS, 4) == [1, 3, 5, 7] and volumes(twin, INTENTS, 4) == [5] * 4
    even = ByVolume(sessions=(1, 3, 5, 7), of=ByIntent(), iid=True)
    assert volumes(even, INTENTS, 4) == [4] * 4
    p = mixed.population(INTENTS, Cascade(), 4, 5, 1)
    alone = ByIntent().population(INTENTS, Cascade(), 4, 5, 1)
    assert (p.labelling == alone.labelling).all() and copies_nothing(p, INTENTS)
    labelled = ByVolume(of=ByLabel()).population(DATA, Cascade(), 5, 5, 1)
    assert labelled.sessions.tolist() == [1, 3, 5, 7, 9]
    assert [len(set(labelled.held(c)[1].tolist())) for c in range(5)] == [1] * 5
    hosted = ByVolume(of=Sharing(of=ByLabel())).population(DATA, Cascade(), 5, 4, 1)
    # the server's own: as the learner says
    assert hosted.clients == 5 and hosted.sessions.tolist() == [1, 3, 5, 7, 9, 4]


def test_most_is_what_the_busiest_client_does():
    assert ByVolume().most_sessions(5) == 9 and ByVolume(iid=True).most_sessions(100) == 5
    assert ByVolume(sessions=(2, 8, 2)).most_sessions(5) == 8


def test_the_spec_of_a_mixture():
    mixed = ByVolume(sessions=(1, 3), of=ByLabel(labels=2), iid=True)
    assert partitions.build(repr(mixed)) == mixed


def test_what_is_wrong_is_refused():
    with pytest.raises(Mistake, match="and not all 0"):
        ByVolume(sessions=(0, 0))
    with pytest.raises(Mistake, match="and not all 0"):
        ByVolume(sessions=(1, -1))
    with pytest.raises(Mistake, match="and not all 0"):
        ByVolume(sessions=())
    with pytest.raises(Mistake, match=r"mean of sessions=\(1, 4\) is 2.5"):
        ByVolume(sessions=(1, 4), iid=True)
    assert ByVolume(sessions=(1, 4)).most_sessions(5) == 4  # only the twin needs it
    with pytest.raises(Mistake, match="expected a partition"):
        ByVolume(of=Cascade())
