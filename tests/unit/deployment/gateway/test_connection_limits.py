"""Limits on connections, with connections that are none."""

import asyncio

import pytest

pytest.importorskip("httptools", reason="needs foltr[deploy]")


from foltr.deployment.gateway import connection_limits as module
from foltr.deployment.gateway.connection_limits import ConnectionLimits
from waiting import until


class Connection:
    """A connection from an address."""

    def __init__(self, connections, address="192.0.2.1", late=False):
        self.limits, self.address, self.device, self.aborted = connections, address, None, False
        self.transport, self.late = self, late

    def abort(self):
        self.aborted = True
        if not self.late:  # the loop tells later that a connection is lost
            self.limits.remove(self)


def entered(connections, many, address="192.0.2.1", late=False):
    found = [Connection(connections, address, late) for _ in range(many)]
    for connection in found:
        connections.add(connection)
    return found


def test_no_more_connections_than_most():
    connections = ConnectionLimits(most=3)
    found = entered(connections, 5)
    assert [each.aborted for each in found] == [False] * 3 + [True] * 2
    assert connections.open == 3 and connections.closed["full"] == 2
    found[0].abort()
    assert not entered(connections, 1)[0].aborted


def test_no_more_connections_from_one_address():
    connections = ConnectionLimits(per_address=2)
    one, other = entered(connections, 4), entered(connections, 2, "192.0.2.2")
    assert [each.aborted for each in one] == [False, False, True, True]
    assert not any(each.aborted for each in other)
    one[0].abort()
    assert not entered(connections, 1)[0].aborted and connections.closed["address"] == 2
    for each in [*one, *other]:
        connections.remove(each)
    assert connections._from == {"192.0.2.1": 1}, "nothing is left of addresses that are gone"


def test_the_oldest_stranger_makes_room():
    connections = ConnectionLimits(strangers=3)
    found = entered(connections, 3)
    assert connections.identify(found[0], 7) and not connections.identify(found[0], 7)
    more = entered(connections, 3)
    assert not found[0].aborted, "it has shown a token"
    assert [each.aborted for each in found[1:]] == [True, True]
    assert not any(each.aborted for each in more) and connections.closed["strangers"] == 2


class Socket:
    """A connection that was accepted."""

    def __init__(self, limits, address="192.0.2.1"):
        self.cut = False
        self.may = limits.begin_handshake(self, address)

    def shutdown(self, how):
        self.cut = True
        raise OSError("the client is gone")


def test_the_oldest_handshake_makes_room():
    limits = ConnectionLimits(strangers=3)
    found = [Socket(limits) for _ in range(3)]
    limits.end_handshake(found[0])
    more = [Socket(limits) for _ in range(3)]
    assert not found[0].cut, "it has finished"
    assert [each.cut for each in (*found[1:], *more)] == [True, True, False, False, False]
    assert limits.closed == {"handshake": 2} and limits.handshakes == 3
    for each in (*found, *more):
        limits.end_handshake(each)
    assert limits.handshakes == 0 and not limits._from
    limits.cut_oldest_handshake()  # there is none
    assert limits.closed == {"handshake": 2}


def test_handshakes_count_for_the_limit_of_an_address():
    limits = ConnectionLimits(per_address=2)
    one, two, three = (Socket(limits) for _ in range(3))
    assert one.may and two.may and not three.may and limits.closed == {"address": 1}
    assert Socket(limits, "192.0.2.2").may
    limits.end_handshake(one)
    assert not entered(limits, 1)[0].aborted, "it takes the place of its handshake"
    assert not Socket(limits).may


def test_each_of_many_that_come_at_once_closes_another_one():
    """Before the first one that was closed has ended."""
    connections = ConnectionLimits(strangers=3, per_device=2)
    found = entered(connections, 10, late=True)
    assert [each.aborted for each in found] == [True] * 7 + [False] * 3
    assert connections.closed == {"strangers": 7}
    more = entered(connections, 3, late=True)
    for each in more:
        connections.identify(each, 7)
    for each in entered(connections, 2, late=True):
        connections.identify(each, 7)
    assert [each.aborted for each in more] == [True, True, True] and connections.closed[
        "device"
    ] == 3
    left = []
    connections.left = left.append
    for each in list(connections._all):
        connections.remove(each)
    assert left == [7] * 5 and connections.open == 0 and not connections._of


def test_silent_strangers_are_closed(clock):
    connections = ConnectionLimits(stranger_seconds=10.0)
    old = entered(connections, 3)
    connections.identify(old[2], 7)
    clock.now += 6.0
    new = entered(connections, 1)
    clock.now += 5.0
    connections.close_slow()
    assert [each.aborted for each in (*old, *new)] == [True, True, False, False]
    assert connections.closed == {"silent": 2}


def test_slow_requests_are_closed(clock):
    connections = ConnectionLimits(request_seconds=20.0)
    slow, quick, idle = entered(connections, 3)
    for each in (slow, quick, idle):
        connections.identify(each, 7)
    for each in (slow, quick):
        connections.begin(each)
    connections.end(quick)
    clock.now += 21.0
    connections.close_slow()
    assert [each.aborted for each in (slow, quick, idle)] == [True, False, False]
    assert connections.closed == {"slow": 1}


def test_it_tells_when_a_device_s_connection_ends():
    left = []
    connections = ConnectionLimits(left=left.append)
    one, two = entered(connections, 2)
    connections.identify(one, 7)
    connections.identify(one, 8)  # the first one counts
    connections.remove(one)
    connections.remove(one)
    connections.remove(two)
    assert left == [7] and connections.open == 0


def test_a_device_has_a_few_connections_and_its_oldest_makes_room():
    left = []
    connections = ConnectionLimits(per_device=2, left=left.append)
    of_7, of_8 = entered(connections, 4), entered(connections, 1)
    connections.identify(of_8[0], 8)
    for each in of_7:
        assert connections.identify(each, 7)
    assert [each.aborted for each in of_7] == [True, True, False, False]
    assert not of_8[0].aborted and connections.closed == {"device": 2} and left == [7, 7]
    for each in (*of_7, *of_8):
        connections.remove(each)
    assert not connections._of


def test_a_request_on_a_connection_that_has_ended_proves_nothing():
    """Or its device would count as connected for ever."""
    left = []
    connections = ConnectionLimits(left=left.append)
    (one,) = entered(connections, 1)
    connections.remove(one)
    assert (
        not connections.identify(one, 7)
        and one.device is None
        and not connections._of
        and not left
    )


def test_a_response_must_be_read(clock):
    connections = ConnectionLimits(response_seconds=120.0)
    slow, quick = entered(connections, 2)
    for each in (slow, quick):
        connections.identify(each, 7)
        connections.pause(each)
    connections.resume(quick)
    clock.now += 119.0
    connections.close_slow()
    assert not slow.aborted
    clock.now += 2.0
    connections.close_slow()
    assert [slow.aborted, quick.aborted] == [True, False] and connections.closed == {"unread": 1}


def test_watching_closes_what_is_late(monkeypatch):
    async def scene():
        monkeypatch.setattr(module, "CHECK", 0.001)
        connections = ConnectionLimits(stranger_seconds=0.0)
        found = entered(connections, 2)
        watch = asyncio.ensure_future(connections.watch())
        await until(lambda: not connections.open)
        watch.cancel()
        assert all(each.aborted for each in found)

    asyncio.run(scene())


def test_memory_of_connections_that_have_ended_is_freed(monkeypatch):
    """Connections are cycles of objects. Those that have ended are collected when they are many,
    and at least half as many as those that are left."""
    collected = []
    monkeypatch.setattr(module, "release_memory", lambda: collected.append(connections.open))
    monkeypatch.setattr(module, "ENDED", 10)
    connections = ConnectionLimits()
    for connection in entered(connections, 11)[:10]:
        connection.abort()
    connections.close_slow()
    assert not collected
    entered(connections, 1)[0].abort()
    connections.close_slow()
    connections.close_slow()
    assert collected == [1]
    for connection in entered(connections, 60)[:20]:
        connection.abort()
    connections.close_slow()
    assert collected == [1], "20 of 61 have ended"
    for connection in entered(connections, 21):
        connection.abort()
    connections.close_slow()
    assert collected == [1, 41]
