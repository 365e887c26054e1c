"""Simulated devices behind a gateway, for demonstrations and tests: `foltr simulate-devices`.

The settings file has the agreement and a table [devices]. Each device is a client with documents,
a simulated user, a key and a connection of its own; they share this process. Their records are in
memory: a process that is started again enrols new devices."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from foltr.core import Engine
from foltr.core.errors import Mistake, require
from foltr.deployment.gateway.async_client import AsyncConnection, AsyncGatewayClient
from foltr.deployment.gateway.client import Excluded, Requests, Unavailable, parts_of
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.keys.device_keys import keys_in, trusting
from foltr.deployment.node.clients import learning
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.participant import Participant
from foltr.deployment.protocol.records import Records
from foltr.deployment.protocol.sums import Known
from foltr.deployment.settings import DevicesTable, NodeTable, beside, read_devices
from foltr.experiment.user_files import Code

ENROLLING_TOGETHER = 50  # devices, at most
RETRY_SECONDS = 0.5  # until a device tries to enrol again


def engines_of(agreed: Agreement, table: DevicesTable, file: Path) -> Callable[[int], Engine]:
    """Searches per client -> an engine with all clients of the federation, made once."""
    as_node = NodeTable(
        "localhost:1", "none", table.data, table.population, users=table.users,
        partition=table.partition, seed=table.seed, population=table.population,
    )  # fmt: skip
    return cache(learning(agreed, as_node, file, Records(None, agreed.id)))


def device_of(
    agreed: Agreement,
    client: int,
    engine_for: Callable[[int], Engine],
    records: Records,
    tell: Callable[[str], None],
    key: bytes | None = None,
    known: Known | None = None,
) -> Participant:
    """The device with this client number. `key` is its private key, `known` returns the pinned
    public keys: for signed sums."""
    own = range(client, client + 1)
    device = Participant(agreed, own, engine_for, records, offset=0, tell=tell)
    if agreed.protocol is not None:
        from foltr.deployment.protocol.sums import SumParticipant

        device.sums = SumParticipant(agreed.protocol, agreed.fewest, key, known)
    return device


async def run_devices(
    agreed: Agreement, table: DevicesTable, file: Path, tell: Callable[[str], None]
) -> None:
    """Enrol the devices, and answer asks until this is cancelled."""
    host, port, plain = parts_of(table.gateway)
    tls = ssl.create_default_context() if table.ca is None else trusting(beside(file, table.ca))
    signs = agreed.protocol is not None and agreed.protocol.consistency
    unsigned = f"{file}: [devices] needs device_keys, the file of pinned keys: the channel says so"
    require(not signs or table.device_keys is not None, unsigned)
    engine_for = engines_of(agreed, table, file)
    invitations: list[str | None] = [None] * table.devices
    if table.invitations is not None:
        invitations = list(beside(file, table.invitations).read_text().split())
        few = f"{table.invitations} has {len(invitations)} invitations"
        require(len(invitations) >= table.devices, f"{few}, and devices = {table.devices}")
    gate = asyncio.Semaphore(ENROLLING_TOGETHER)
    roster = None if table.roster is None else beside(file, table.roster)
    pinned = None if table.device_keys is None else beside(file, table.device_keys)
    known = None if pinned is None else keys_in(roster, pinned, tell)

    last_text = ""
    enrolled_devices = 0

    def tell_once(text: str) -> None:  # thousands of devices may have the same problem
        nonlocal last_text
        if text != last_text:
            last_text = text
            tell(text)

    async def one(invitation: str | None) -> None:
        nonlocal enrolled_devices
        wire = AsyncConnection(host, port, None if plain else tls)
        requests = Requests(Ed25519PrivateKey.generate(), agreed.id)
        each = AsyncGatewayClient(wire, requests, table.wait, tell_once)
        async with gate:
            client = await enrolled(each, invitation)
        enrolled_devices += 1
        if enrolled_devices == table.devices:
            tell(f"all {table.devices:,} devices have enrolled")
        outside = f"client {client} is not in 0 .. {table.population - 1}: raise population"
        require(client < table.population, outside)
        records, own = Records(None, agreed.id), requests.key.private_bytes_raw()
        device = device_of(agreed, client, engine_for, records, tell, own, known)
        try:
            await each.serve(device.answer)
        except Excluded as error:
            tell(f"client {client} takes part no more: {error}")

    tell(f"{table.devices:,} simulated devices enrol at {table.gateway}")
    tasks = [asyncio.ensure_future(one(token)) for token in invitations[: table.devices]]
    await asyncio.gather(*tasks)


async def enrolled(device: AsyncGatewayClient, invitation: str | None) -> int:
    while True:
        try:
            return await device.enrol(invitation)
        except Unavailable as away:
            device.tell(f"{away}: trying again")
            await asyncio.sleep(max(RETRY_SECONDS, away.seconds))


def run(file: Path, code: Code, tell: Callable[[str], None]) -> None:
    """Run the devices of a settings file until Ctrl-C or SIGTERM."""
    agreed, table = read_devices(file, code)

    async def until_stopped() -> None:
        work = asyncio.ensure_future(run_devices(agreed, table, file, tell))
        for signum in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(signum, work.cancel)
        with suppress(asyncio.CancelledError):
            await work

    try:
        asyncio.run(until_stopped())
    except Excluded as error:
        raise Mistake(f"{table.gateway} refuses a device: {error}") from None
    tell("stopped")
