"""Devices with an index and a log of their own, in a federation through its gateway."""

from dataclasses import replace

import numpy as np
import pytest
from own_devices import Person, all_answer, begin, federation, simulated

from foltr.core.errors import Mistake

pytestmark = pytest.mark.loopback


def test_devices_learn_together_what_a_simulation_of_their_logs_learns(tmp_path):
    with federation(tmp_path, 2) as here:
        begin(here)
        people = [Person(here, i).join() for i in range(2)]
        agreed = people[0].running.membership.agreed
        for t in range(3):
            for person in people:
                person.search(4, 4 * t)
                assert person.running.membership.due()
            all_answer(people)
            here.wait_round(t + 1)
            if t == 1:  # a restart in between changes nothing
                people = [person.run() for person in people]
        params, memory = simulated(agreed, people, 3)
        assert np.array_equal(here.model(3), params), here.everything()
        for person, kept in zip(people, memory, strict=True):
            assert person.running.service.ranker.epoch.memory.tobytes() == kept.tobytes()
            assert not person.running.membership.due()
        assert np.abs(params[1:]).max() > 0.0


def test_a_newcomer_starts_from_the_others_model(tmp_path):
    with federation(tmp_path, 2, fewest=1, asked=2) as here:
        begin(here)
        first = Person(here, 0).join()
        for t in range(2):
            first.search(4, 4 * t)
            first.answer()
            here.wait_round(t + 1)
        late = Person(here, 1).join()
        epoch = late.running.service.ranker.epoch
        assert epoch.round >= 1
        assert np.array_equal(epoch.params, here.model(epoch.round).astype(np.float32))
        assert not epoch.memory.any()
        mine = late.running.membership
        other = replace(mine.agreed, rounds=99)
        with pytest.raises(Mistake, match="under another agreement: rounds is 99 now"):
            late.home.federation.join(mine.gateway, other, None)


def test_a_device_that_learned_alone_keeps_its_share_when_it_joins(tmp_path):
    with federation(tmp_path, 2, fewest=1, asked=2) as here:
        begin(here)
        person = Person(here, 0).run()
        person.search(10)
        before = person.running.service.ranker.weights.copy()
        person.join()
        after = person.running.service.ranker.weights
        start = np.eye(len(after))[0] * 5.0  # the server's model, which has learned nothing
        assert np.allclose(after - start, (before - start) * 10 / 14, atol=1e-6)
        assert np.abs(after[1:]).max() > 0.0
