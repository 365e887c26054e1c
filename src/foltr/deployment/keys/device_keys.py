"""The file of pinned keys: the public keys of devices behind gateways. It has a line for each
device, with its client number and its public Ed25519 key in base64:

    17 tW7v...=

`foltr gateway FILE --keys` prints these lines. Who has this file takes part in signed sums only
with these devices, and with the nodes of its roster that are no gateways. A server cannot invent
such clients, because it does not have their private keys."""

from __future__ import annotations

import re
import ssl
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require, shown
from foltr.core.system.files import text_of
from foltr.core.system.log import Event, Reloaded, Tell
from foltr.deployment.keys.roster import ALL, SIGNS, Roster
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.protocol.sums import Known


def read_device_keys(path: Path, tell: Tell) -> dict[int, bytes]:
    """Read a file of pinned keys: client number -> public key. Clients with the same key are left
    out: somebody has enrolled it twice, and would otherwise make the file useless for all."""
    try:
        lines = text_of(path).splitlines()
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise Mistake(
            f"{path} is no text in UTF-8: `foltr gateway FILE --keys` makes it"
        ) from None
    found: dict[int, bytes] = {}
    for number, line in enumerate(lines, 1):
        where, words = f"{path}, line {number}", line.split()
        if not words or words[0].startswith("#"):
            continue
        numbered = re.fullmatch(r"[0-9]{1,8}", words[0]) and int(words[0]) < ALL
        form = f"{where} is {shown(line[:60])}: expected a client number and a key in base64"
        require(len(words) == 2 and bool(numbered), form)
        try:
            key = b64decode(words[1], validate=True)
        except ValueError:
            key = b""
        require(len(key) == SIGNS, form)
        client = int(words[0])
        require(client not in found, f"{where}: client {client} has two keys: remove one")
        found[client] = key
    many = Counter(found.values())
    if twice := [client for client, key in found.items() if many[key] > 1]:
        named = ", ".join(map(str, twice[:10])) + (" ..." if len(twice) > 10 else "")
        told = f"{path}: the clients {named} share a key: they are left out"
        tell(Event(told, "keys", "warning"))
    return {client: key for client, key in found.items() if many[key] == 1}


def device_keys_text(keys: Mapping[int, bytes]) -> str:
    """The lines of a file of device keys."""
    return "".join(f"{client} {b64encode(key).decode()}\n" for client, key in sorted(keys.items()))


@dataclass
class Signers:
    """Who signs for which client in a secure sum: a node for all of its clients, a device behind a
    gateway for itself. A device without a pinned key has none. A node is a gateway if the roster
    says so, or if one of its clients has a pinned key."""

    roster: Callable[[], Roster]
    pinned: Callable[[], Mapping[int, bytes]]
    _gateways: tuple[Any, Any, frozenset[str]] = (None, None, frozenset())  # of these two

    def __call__(self, clients: Array) -> dict[int, bytes]:
        roster, pinned = self.roster(), self.pinned()
        seats = {int(id): roster.node_of(int(id)) for id in clients}
        gateways = self._gateways_of(roster, pinned)
        nodes = [id for id, seat in seats.items() if seat.name not in gateways]
        devices = [id for id, seat in seats.items() if id in pinned and not seat.revoked]
        return roster.signers(nodes) | {id: pinned[id] for id in devices}

    def _gateways_of(self, roster: Roster, pinned: Mapping[int, bytes]) -> frozenset[str]:
        if self._gateways[0] is not roster or self._gateways[1] is not pinned:
            named = {seat.name for seat in roster.seats if seat.gateway}
            named |= {roster.node_of(client).name for client in pinned}
            self._gateways = roster, pinned, frozenset(named)
        return self._gateways[2]

    def filled(self, clients: Array, n: int) -> Array:
        """These clients, and others that can sign, up to n."""
        able = np.array(sorted(self(self.roster().clients)), np.int64)
        others = np.setdiff1d(able, clients)
        return np.append(clients, others[: max(0, n - len(clients))])


def server_signers(
    roster: Callable[[], Roster], roster_file: Path, device_keys: Path, tell: Tell
) -> Signers:
    """The signers of a server. The file of pinned keys is read again when it or the roster's file
    changes. A changed file with a mistake is reported, and the keys before stay in use."""

    def read() -> Mapping[int, bytes]:
        return _checked(read_device_keys(device_keys, tell), roster())

    current = Reloaded([roster_file, device_keys], read, tell)

    def pinned() -> Mapping[int, bytes]:
        before = current.value
        if current.refresh() and current.value != before:
            told = f"{device_keys} has changed: it has the keys of {len(current.value):,} devices"
            tell(Event(told, "keys"))
        return current.value

    return Signers(roster, pinned)


def _checked(pinned: Mapping[int, bytes], roster: Roster) -> Mapping[int, bytes]:
    """These keys. Raises a Mistake for clients that the roster does not have."""
    for client in pinned:
        roster.node_of(client)
    return pinned


def keys_in(roster: Path | None, device_keys: Path | None, tell: Tell) -> Known:
    """The public keys of a node's or device's own copies of the roster and of the file of pinned
    keys. They are read again when they change. While the file of pinned keys does not exist, no
    client has a key: nobody takes part in a sum with clients that it cannot check."""
    found = False

    def read() -> Known:
        nonlocal found
        if device_keys is not None and not device_keys.exists():
            if found:
                raise Mistake(f"{device_keys} is gone")
            tell(Event(f"{device_keys} does not exist yet: no signed sums", "keys", "warning"))
            return lambda clients: {}
        found = True
        pinned: Mapping[int, bytes] = {}
        if device_keys is not None:
            pinned = read_device_keys(device_keys, tell)
        if roster is None:
            return lambda clients: {id: pinned[id] for id in map(int, clients) if id in pinned}
        nodes = read_roster(roster)
        pinned = _checked(pinned, nodes)
        return Signers(lambda: nodes, lambda: pinned)

    current = Reloaded([file for file in (roster, device_keys) if file is not None], read, tell)

    def keys_of(clients: Array) -> Mapping[int, bytes]:
        current.refresh()
        return current.value(clients)

    return keys_of


def trusting(roots: Path | None) -> ssl.SSLContext:
    """A TLS context that trusts only the certificates in the file `roots`; None trusts those of
    the operating system."""
    if roots is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=Path(roots).read_text())
    except (ssl.SSLError, ValueError) as error:
        raise Mistake(
            f"{roots}: no certificates (PEM) in it: copy ca.pem from the server's keys"
        ) from error
    except OSError as error:
        raise Mistake(
            f"cannot read {roots}: {error.strerror}: copy ca.pem from the server's keys"
        ) from error
    return context
