"""The devices of a gateway in memory, as they are on disk."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from foltr.deployment.gateway.enrolment import Enrolled, Enrolment, Refused, Standing
from foltr.deployment.gateway.signing import Ed25519PublicKey, public_key

T = TypeVar("T")
FORGET = (Standing.TO_FORGET, Standing.FORGOTTEN, Standing.GONE)


class Forbidden(Refused):
    """A request that this device may not make."""

    def __init__(self, text: str) -> None:
        super().__init__(403, text)


@dataclass(eq=False)
class Devices(Mapping[int, Enrolled]):
    """The enrolled devices by their client numbers. Changes are on disk before they are here.

    The state file is used by one thread at a time, outside of the event loop (`on_disk`)."""

    enrolment: Enrolment
    _found: dict[int, Enrolled] = field(default_factory=dict)
    _keys: dict[int, Ed25519PublicKey] = field(default_factory=dict)
    _disk: threading.Lock = field(default_factory=threading.Lock)
    _order: asyncio.Lock = field(default_factory=asyncio.Lock)  # changes here follow the disk

    def __post_init__(self) -> None:
        self._use(self.enrolment.devices())

    def __getitem__(self, client: int) -> Enrolled:
        return self._found[client]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def active(self, client: int) -> bool:
        device = self._found.get(client)
        return device is not None and device.standing == Standing.ACTIVE

    def revoked(self, client: int) -> bool:
        device = self._found.get(client)
        return device is not None and device.standing == Standing.REVOKED

    def standings(self) -> Counter[str]:
        """The number of devices by standing. Other threads may call this."""
        return Counter(device.standing.value for device in list(self._found.values()))

    def known(self, client: int) -> Enrolled:
        """A device that may make requests. Raises Forbidden."""
        device = self._found.get(client)
        if device is None:
            raise Forbidden("this device is not enrolled here")
        if device.standing in (Standing.REVOKED, Standing.GONE):
            raise Forbidden(f"this device {device.standing.said}")
        return device

    def key_of(self, client: int) -> Ed25519PublicKey:
        if client not in self._keys:
            self._keys[client] = public_key(self._found[client].key)
        return self._keys[client]

    def to_forget(self) -> list[int]:
        """The devices that have asked to be forgotten, in ascending order. Those that were
        forgotten are among them: a server that was restored must forget them again."""
        return sorted(client for client, device in self.items() if device.standing in FORGET)

    def alone(self, call: Callable[..., T], *args: object) -> T:
        """Call a function that reads or writes the state file."""
        with self._disk:
            return call(*args)

    async def on_disk(self, call: Callable[..., T], *args: object) -> T:
        """The same, outside of the event loop."""
        return await asyncio.to_thread(self.alone, call, *args)

    async def enrol(
        self, invitation: str | None, key: bytes, numbers: range, now: float
    ) -> tuple[int, bool]:
        """Enrol a device: its client number, and whether it is new. Raises Refused."""
        async with self._order:
            client = await self.on_disk(self.enrolment.enrol, invitation, key, numbers, now)
            if client in self._found:
                return client, False
            self._found[client] = Enrolled(client, key, Standing.ACTIVE)
        return client, True

    async def set_standing(
        self, notices: Mapping[int, bytes | None], standing: Standing, before: Collection[Standing]
    ) -> None:
        """Change the standing of these devices, if it is one of `before`: another process may have
        changed it. Each gets its notice."""
        async with self._order:
            given = notices, standing, before
            self._found |= await self.on_disk(self.enrolment.set_standing, *given)

    async def replace_key(self, client: int, key: bytes) -> None:
        async with self._order:
            await self.on_disk(self.enrolment.replace_key, client, key)
            self._found[client] = replace(self._found[client], key=key)
            self._keys.pop(client, None)

    async def reread(self) -> None:
        """Read the devices again, which another process may have changed."""
        async with self._order:
            self._use(await self.on_disk(self.enrolment.devices))

    def _use(self, found: dict[int, Enrolled]) -> None:
        before, self._found = self._found, found
        for client, device in found.items():
            if client in before and before[client].key != device.key:
                self._keys.pop(client, None)
