"""The folder of a device: its key, its place in a federation, and its records.

    device.key      the private key: the device's identity
    joined.json     the gateway, the client number, and the agreement as it was when it joined
    records.db      what it has answered and what of its budget is spent (`protocol/records.py`)

A device has one client number, because its budget is counted under it. So a folder belongs to one
gateway."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, require
from foltr.core.system.files import text_of, write_whole
from foltr.core.system.private import private_content, replace_private
from foltr.deployment.gateway.client import Excluded, GatewayClient, Requests, Unavailable
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.participant import FORGET, FORGOTTEN
from foltr.deployment.protocol.records import Records

KEY, JOINED, RECORDS, NEW_KEY = "device.key", "joined.json", "records.db", "device.key.new"


@dataclass(frozen=True)
class DeviceFolder:
    """A device's folder. Only its owner may enter it."""

    folder: Path

    @property
    def records_file(self) -> Path:
        return self.folder / RECORDS

    def key(self) -> Ed25519PrivateKey:
        """The device's private key, made on first use."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / KEY
        if not path.exists():
            replace_private(path, Ed25519PrivateKey.generate().private_bytes_raw())
        return _read_key(path)

    @property
    def joined(self) -> dict[str, Any] | None:
        """Where the device has joined: `gateway`, `client` and `agreement` (its text); None if it
        has not."""
        path = self.folder / JOINED
        if not path.exists():
            return None
        try:
            found = json.loads(text_of(path))
            return {name: found[name] for name in ("gateway", "client", "agreement")}
        except (OSError, ValueError, KeyError, TypeError):
            raise Mistake(f"{path} cannot be read: restore it, or use another folder") from None

    def join(self, gateway: GatewayClient, agreed: Agreement, invitation: str | None) -> int:
        """Enrol at a gateway, and pin the agreement. Returns the client number. Joining the
        same gateway again changes nothing; it finishes `renew_key` if that was interrupted.
        Joining another gateway, or under another agreement, is refused."""
        known = self.joined
        if known is not None:
            other = f"this device is client {known['client']} at {known['gateway']}"
            same = known["gateway"] == gateway.url
            require(
                same,
                f"{other}: a device has one number. To change its gateway, leave that one and"
                f" delete {self.folder / JOINED}; or use another folder",
            )
            differ = "; ".join(agreed.differences(known["agreement"], "now", "when it joined"))
            require(not differ, f"{other}, under another agreement: {differ}")
            gateway.requests.client = int(known["client"])
            if (self.folder / NEW_KEY).exists():  # the gateway may have it already
                with suppress(Unavailable):
                    self.renew_key(gateway)
            self._forget_again(gateway, agreed)
            return gateway.requests.client
        try:
            client, text = gateway.enrol(invitation)
        except Excluded as refused:
            raise Mistake(f"{gateway.url} refuses this device: {refused}") from None
        except Unavailable as away:
            later = "" if "try again later" in str(away) else ": try again later"
            raise Mistake(f"{away}{later}") from None
        differ = "; ".join(agreed.differences(text, "on this device", "at the gateway"))
        require(not differ, f"{gateway.url} has another agreement: {differ}")
        if self.records_file.exists():  # it had another number: its budget stays spent
            records = self.records(agreed)
            records.renumber(client)
            records.close()
        about = {"gateway": gateway.url, "client": client, "agreement": agreed.text}
        write_whole(self.folder / JOINED, json.dumps(about) + "\n")
        return client

    def requests(self, agreed: Agreement) -> Requests:
        """The requests of this device, signed with its key."""
        known = self.joined
        return Requests(self.key(), agreed.id, None if known is None else int(known["client"]))

    def records(self, agreed: Agreement) -> Records:
        return Records(self.records_file, agreed.id, agreed.text, with_log=None)

    def forget(self, gateway: GatewayClient, agreed: Agreement) -> None:
        """Ask to be unlearned. From now on the device refuses every ask. Answer asks (`serve`) as
        before until the device is told that it is forgotten: its `Participant` then deletes the
        records. Safe to repeat; `join` repeats it, too, until the gateway has it.

        What the device contributed under an earlier number, at another gateway, stays in the
        model: the server's operator can forget that gateway."""
        records = self.records(agreed)
        records.set_about(FORGET, b"asked")
        earlier = records.earlier
        records.close()
        if earlier:
            numbers = ", ".join(map(str, earlier))
            gateway.tell(
                f"this device was client {numbers} at another gateway: what it contributed there"
                " stays in the model, unless the server's operator forgets that gateway"
            )
        gateway.forget()

    def _forget_again(self, gateway: GatewayClient, agreed: Agreement) -> None:
        """Ask again to be unlearned, if the device has asked and has not been told that it is."""
        if not self.records_file.exists():
            return
        records = self.records(agreed)
        asked = records.about(FORGET) is not None and records.about(FORGOTTEN) is None
        records.close()
        if asked:
            with suppress(Unavailable, Excluded):
                gateway.forget()

    def renew_key(self, gateway: GatewayClient) -> None:
        """Replace the device's key. The new key is on disk before the gateway is told; if the
        answer is lost, the next call finds out which key is valid."""
        path = self.folder / NEW_KEY
        if not path.exists():
            replace_private(path, Ed25519PrivateKey.generate().private_bytes_raw())
        new = _read_key(path)
        try:
            gateway.replace_key(new)
        except Excluded:  # perhaps the gateway has the new key already
            before, gateway.requests.key = gateway.requests.key, new
            try:
                gateway.session()
            except Excluded:
                gateway.requests.key = before
                raise
        path.replace(self.folder / KEY)
        gateway.requests.key = new


def _read_key(path: Path) -> Ed25519PrivateKey:
    raw = private_content(path)
    require(len(raw) == 32, f"{path} is damaged: restore it, or use another folder")
    return Ed25519PrivateKey.from_private_bytes(raw)
