"""Which devices can be reached, by a clock of the test's own."""

import asyncio

import pytest

from foltr.deployment.gateway.presence import Polling, Presence

POLLING = Polling(hold=5.0, max_held=4, poll=60.0, grace=3.0, back=20.0)


class Loop:
    now = 1000.0

    def time(self):
        return self.now


@pytest.fixture
def there():
    found = Presence(POLLING)
    found._loop = Loop()
    return found


def test_a_device_can_be_reached_while_it_is_connected_and_a_little_longer(there):
    assert not there.reachable(7)
    there.connected(7)
    there.connected(7)
    there._loop.now += 10_000.0
    assert there.reachable(7) and there.open == 1
    there.disconnected(7)
    assert there.reachable(7), "it has another connection"
    there.disconnected(7)
    assert there.reachable(7) and there.open == 0
    there._loop.now += 2.9
    assert there.reachable(7)
    there._loop.now += 0.2
    assert not there.reachable(7)


def test_a_device_that_polls_can_be_reached_until_it_is_due(there):
    there.expect(7, 60.0)
    there._loop.now += 62.9
    assert there.reachable(7)
    there._loop.now += 0.2
    assert not there.reachable(7)


def test_a_device_that_polls_may_disconnect_meanwhile(there):
    there.connected(7)
    there.expect(7, 60.0)
    there.disconnected(7)
    there._loop.now += 62.9
    assert there.reachable(7)
    there._loop.now += 0.2
    assert not there.reachable(7)


def test_a_device_that_let_a_step_time_out_is_away_until_it_asks(there):
    there.connected(7)
    there.missed([7, 8])
    assert not there.reachable(7)
    there.heard(7)
    assert there.reachable(7)
    there.heard(8)
    there.connected(8)
    assert there.reachable(8)


def test_who_never_answers_is_asked_less_and_less(there):
    """It is away for 0, 60, 120, 240 ... seconds, and an hour at most."""
    there.connected(7)
    for pause in (0.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0):
        there.missed([7])
        there.heard(7)
        assert there.reachable(7) == (pause == 0.0)
        there._loop.now += max(0.0, pause - 0.1)
        there.heard(7)
        assert there.reachable(7) == (pause == 0.0)
        there._loop.now += 0.2
        assert there.reachable(7) == (pause == 0.0), "it must also make a request"
        there.heard(7)
        assert there.reachable(7)
    there.answered([7])
    there.missed([7])
    there.heard(7)
    assert there.reachable(7)


def test_a_step_waits_for_devices_that_have_not_connected_since_the_start(there):
    there._began = there._loop.now
    assert not there.reachable(7) and there.awaited(7)
    there.connected(8)
    there.disconnected(8)
    there._loop.now += 4.0
    assert there.awaited(7) and not there.awaited(8), "it was here, and has left"
    there._loop.now += 17.0
    assert not there.awaited(7)
    there.connected(7)
    assert there.awaited(7)


def test_who_waits_is_woken_when_there_is_an_ask():
    async def scene():
        there = Presence(POLLING)
        there.start()
        waits = [asyncio.ensure_future(there.wait(client, 30.0)) for client in (1, 2, 3)]
        await asyncio.sleep(0)
        assert there.held == 3 and there.reachable(1)
        there.wake([1, 3, 9])
        await asyncio.gather(waits[0], waits[2])
        assert there.held == 1 and not waits[1].done()
        there.wake_all()
        await waits[1]
        assert there.held == 0

    asyncio.run(scene())


def test_waiting_ends_by_itself():
    async def scene():
        there = Presence(POLLING)
        there.start()
        await there.wait(1, 0.01)
        assert there.held == 0

    asyncio.run(scene())


def test_a_device_waits_once():
    """A second request releases the first: a device cannot hold many requests."""

    async def scene():
        there = Presence(POLLING)
        there.start()
        first = asyncio.ensure_future(there.wait(1, 30.0))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(there.wait(1, 30.0))
        await first
        assert there.held == 1 and not second.done()
        there.wake([1])
        await second

    asyncio.run(scene())


def test_who_disconnects_while_it_waits_is_no_longer_reachable():
    """Its request does not count until the end of its time."""

    async def scene():
        there = Presence(Polling(grace=0.0))
        there.start()
        there.connected(1)
        there.connected(1)
        wait = asyncio.ensure_future(there.wait(1, 30.0))
        await asyncio.sleep(0)
        there.disconnected(1)
        await asyncio.sleep(0)
        assert there.held == 1, "it has another connection"
        there.disconnected(1)
        await wait
        assert there.held == 0 and not there.reachable(1)

    asyncio.run(scene())


def test_a_device_that_never_answers_is_asked_about_once_an_hour(there):
    """However long that goes on: a power of two has no end."""
    for _ in range(3000):
        there.missed([7])
    there.connected(7)
    there._loop.now += 3599.0
    there.heard(7)
    assert not there.reachable(7)
    there._loop.now += 2.0
    there.heard(7)
    assert there.reachable(7)


def test_a_step_that_is_continued_waits_for_devices_that_were_not_heard_yet(there):
    """They may be computing their answers since before the restart."""
    there._began = there._loop.now
    there._loop.now += 21.0
    assert not there.awaited(7) and there.awaited(7, continued=True)
    there.connected(7)
    there.disconnected(7)
    there._loop.now += 4.0
    assert not there.awaited(7, continued=True), "it was heard, and is gone"
