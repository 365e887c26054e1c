"""The doors of a SuperLink, without Flower."""

import asyncio

import pytest

from foltr.deployment.flower.doors import (
    NODE,
    RINGS,
    SECRET,
    SMALL_BODY,
    WAIT,
    Bell,
    Door,
    fleet_only,
)
from waiting import until

PULL = "/v1/fleet/pull-messages"


async def echo(scope, receive, send):
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


class Caller:
    """One request."""

    def __init__(self, path=PULL, parts=(b"hello",), **headers):
        names = {"node": NODE, "rings": RINGS, "wait": WAIT, "secret": SECRET}
        pairs = [(names.get(k, k.replace("_", "-")), str(v)) for k, v in headers.items()]
        self.scope = {
            "type": "http",
            "path": path,
            "headers": [(name.encode(), value.encode()) for name, value in pairs],
        }
        self.parts, self.sent, self.left = list(parts), [], asyncio.Event()

    async def receive(self):
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    async def ask(self, door):
        await door(self.scope, self.receive, self.send)
        return self

    @property
    def status(self):
        return self.sent[0]["status"] if self.sent else None

    @property
    def rings(self):
        return int(dict(self.sent[0]["headers"])[RINGS.encode()])


def claimed(headers):
    return int(headers.get(NODE, b"0"))


def door(bell=None, **more):
    given = {"open_to": fleet_only(False), "largest": 100, "sender": claimed} | more
    return Door(echo, bell or Bell(), **given)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (PULL, 200),
        ("/v1/fleet/register-node", 404),
        ("/v1/fleet/unregister-node", 404),
        ("/v1/control/start-run", 404),
        ("/v1/runtime/acquire-task", 404),
        ("/", 404),
    ],
)
def test_the_public_door_passes_calls_of_nodes(path, status):
    assert asyncio.run(Caller(path).ask(door())).status == status


def test_nodes_register_themselves_where_that_is_allowed():
    caller = Caller("/v1/fleet/register-node")
    assert asyncio.run(caller.ask(door(open_to=fleet_only(True)))).status == 200


@pytest.mark.parametrize(("given", "status"), [({}, 403), ({"secret": "no"}, 403)])
def test_the_private_door_needs_the_secret(given, status):
    assert asyncio.run(Caller(**given).ask(door(secret="yes"))).status == status
    assert asyncio.run(Caller(secret="yes").ask(door(secret="yes"))).status == 200


@pytest.mark.parametrize(
    ("parts", "headers", "status"),
    [
        ([bytes(100)], {}, 200),
        ([bytes(60), bytes(40)], {}, 200),
        ([bytes(60), bytes(41)], {}, 413),
        ([bytes(90)] * 9, {}, 413),
        ([b""], {"content_length": 401}, 413),
        ([b""], {"content_length": "many"}, 413),
    ],
)
def test_a_request_has_a_largest_size(parts, headers, status):
    caller = Caller("/v1/fleet/push-messages", parts, **headers)
    assert asyncio.run(caller.ask(door())).status == status
    if status == 200:
        assert caller.sent[1]["body"] == b"".join(parts) or len(caller.sent[1]["body"]) == 100


@pytest.mark.parametrize(("known", "size"), [(None, SMALL_BODY), (7, 10 * SMALL_BODY)])
def test_nothing_large_is_read_of_a_stranger(known, size):
    front = door(largest=10 * SMALL_BODY, sender=lambda headers: known)
    for extra, status in ((0, 200), (1, 413)):
        caller = Caller("/v1/fleet/push-messages", [bytes(size + extra)])
        assert asyncio.run(caller.ask(front)).status == status
    huge = Caller("/v1/fleet/push-messages", [bytes(SMALL_BODY)] * 100)
    assert asyncio.run(huge.ask(front)).status == 413
    assert len(huge.parts) >= 50  # the rest was not even received


def test_nobody_waits_in_anothers_name():
    async def scene(node, known):
        bell = Bell()
        bell.start()
        bell.know(node)
        caller = Caller(node=node, rings=bell.rings(node), wait=60_000)
        front = door(bell, sender=lambda headers: known)
        await asyncio.wait_for(caller.ask(front), 60)  # at once
        assert caller.status == 200 and not bell.gone(node)
        assert RINGS.encode() not in dict(caller.sent[0]["headers"])

    for node, known in ((7, 8), (7, None), (1, 7), (1, None)):
        asyncio.run(scene(node, known))


def test_who_waits_hears_the_bell_and_nobody_elses():
    async def scene():
        bell = Bell()
        bell.start()
        front = door(bell)
        first = await Caller(node=7, rings=0, wait=60_000).ask(front)  # it heard nothing yet
        waits = asyncio.ensure_future(Caller(node=7, rings=first.rings, wait=60_000).ask(front))
        neighbour = Caller(node=8, rings=bell.rings(8), wait=60_000).ask(front)
        neighbour = asyncio.ensure_future(neighbour)
        await until(lambda: bell.waits(7) and bell.waits(8))
        bell.ring(8)
        await asyncio.wait_for(neighbour, 60)
        assert not waits.done() and bell.waits(7)
        bell.ring(7)
        second = await asyncio.wait_for(waits, 60)
        assert second.rings != first.rings
        # a ring between two requests is not missed
        bell.ring(7)
        await until(lambda: bell.rings(7) == second.rings + 1)
        again = Caller(node=7, rings=second.rings, wait=60_000).ask(front)
        assert (await asyncio.wait_for(again, 60)).status == 200

    asyncio.run(scene())


def test_waiting_ends():
    async def scene():
        bell = Bell()
        bell.start()
        caller = Caller(node=7, rings=bell.rings(7), wait=1)
        assert (await caller.ask(door(bell))).status == 200
        assert not bell.gone(7)

    asyncio.run(scene())


def test_a_node_that_hangs_up_is_gone_until_it_calls_again():
    async def scene():
        bell = Bell()
        bell.start()
        caller = Caller(node=7, rings=bell.rings(7), wait=60_000)
        bell.know(7)
        caller.left.set()
        assert (await caller.ask(door(bell))).status is None
        stranger = Caller(node=8, rings=bell.rings(8), wait=60_000)
        stranger.left.set()
        await stranger.ask(door(bell))
        assert bell.gone(7) and not bell.gone(8)
        await Caller(node=7, rings=bell.rings(7), wait=1).ask(door(bell))
        assert not bell.gone(7)

    asyncio.run(scene())
