"""Wait for what happens elsewhere: in another thread, another task or another process."""

import asyncio
import time


def wait_until(condition, seconds=20.0):
    """Wait until `condition()` is true, and give its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"it did not happen within {seconds:g} s"
        time.sleep(0.005)
    return value


async def until(condition, seconds=20.0):
    """The same, while other tasks of the running loop go on."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"it did not happen within {seconds:g} s"
        await asyncio.sleep(0.001)
    return value
