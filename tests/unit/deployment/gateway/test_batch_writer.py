"""Writes that are put on disk together."""

import asyncio
import threading

import pytest

from foltr.deployment.gateway.enrolment import BatchWriter
from waiting import until


class Disk:
    """A disk that waits at a gate, and fails when it is told to."""

    def __init__(self):
        self.batches, self.written, self.fails = [], [], set()
        self.begun = 0
        self.gate = threading.Event()
        self.gate.set()

    def write(self, batch):
        self.begun += 1
        assert self.gate.wait(20)
        self.batches.append(list(batch))
        if self.fails & set(batch):
            raise OSError("no space left")


def together(disk, **more):
    return BatchWriter(disk.write, disk.written.extend, **more)


def test_what_arrives_while_the_disk_is_busy_is_one_batch():
    async def scene():
        disk = Disk()
        writes = together(disk)
        disk.gate.clear()
        first = asyncio.ensure_future(writes.put(0))
        await asyncio.sleep(0)
        rest = [asyncio.ensure_future(writes.put(i)) for i in range(1, 100)]
        await until(lambda: disk.begun == 1 and len(writes._queue) == 99)
        assert not first.done() and not disk.written, "nothing is confirmed before it is on disk"
        disk.gate.set()
        await asyncio.gather(first, *rest)
        assert disk.batches == [[0], list(range(1, 100))] and disk.written == list(range(100))

    asyncio.run(scene())


def test_a_failing_write_fails_exactly_its_batch():
    async def scene():
        disk = Disk()
        writes = together(disk)
        disk.gate.clear()
        first = asyncio.ensure_future(writes.put("a"))
        await asyncio.sleep(0)
        second = [asyncio.ensure_future(writes.put(item)) for item in "bcd"]
        await asyncio.sleep(0)
        disk.fails = {"c"}
        disk.gate.set()
        await first
        for error in await asyncio.gather(*second, return_exceptions=True):
            assert isinstance(error, OSError) and "no space" in str(error)
        assert disk.written == ["a"]
        disk.fails = set()
        await writes.put("c")
        assert disk.written == ["a", "c"] and disk.batches[-1] == ["c"]

    asyncio.run(scene())


def test_what_is_told_of_a_batch_that_is_written_may_fail_too():
    async def scene():
        disk = Disk()

        def broken(batch):
            raise RuntimeError("the caller's own code")

        writes = BatchWriter(disk.write, broken)
        with pytest.raises(RuntimeError, match="own code"):
            await writes.put(1)
        writes.written = disk.written.extend
        await writes.put(2)
        assert disk.written == [2]

    asyncio.run(scene())


def test_drained_waits_for_everything_that_was_put():
    async def scene():
        disk = Disk()
        writes = together(disk)
        await writes.drained()
        disk.gate.clear()
        puts = [asyncio.ensure_future(writes.put(0))]
        await asyncio.sleep(0)
        puts.append(asyncio.ensure_future(writes.put(1)))
        drained = asyncio.ensure_future(writes.drained())
        await asyncio.sleep(0)
        await until(lambda: disk.begun == 1)
        assert not drained.done()
        disk.gate.set()
        await drained
        assert disk.written == [0, 1]
        await asyncio.gather(*puts)

    asyncio.run(scene())


def test_it_is_full_when_too_many_wait():
    async def scene():
        disk = Disk()
        writes = together(disk, most=3)
        disk.gate.clear()
        puts = [asyncio.ensure_future(writes.put(0))]
        await until(lambda: disk.begun == 1)
        for i in range(1, 4):
            assert not writes.full
            puts.append(asyncio.ensure_future(writes.put(i)))
            await asyncio.sleep(0)
        assert writes.full
        disk.gate.set()
        await asyncio.gather(*puts)
        assert not writes.full

    asyncio.run(scene())


def test_who_no_longer_waits_does_not_disturb_the_others():
    async def scene():
        disk = Disk()
        writes = together(disk)
        disk.gate.clear()
        puts = [asyncio.ensure_future(writes.put(i)) for i in range(3)]
        await until(lambda: disk.begun == 1)
        puts[1].cancel()
        disk.gate.set()
        await puts[0]
        await puts[2]
        assert disk.written == [0, 1, 2] and puts[1].cancelled()

    asyncio.run(scene())
