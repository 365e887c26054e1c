"""foltr's ClientApp, for stock SuperNodes (`foltr.serving.flower_client:client_app`).

A SuperNode starts a process for every message. The node's state folder keeps what must persist
between messages, except for the secrets of a secure sum. Those are kept in the SuperNode's memory
(`Context.state`) and are never written to disk. The state folder has a hash of the newest secrets,
so that a process does not continue from older ones."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from flwr.app import ConfigRecord, Context, Error, Message
from flwr.clientapp import ClientApp

from foltr.core import Engine
from foltr.errors import Mistake
from foltr.federated.device import Device
from foltr.federated.frames import Frame, Kind
from foltr.federated.keys import SIGN_KEY, read_sign_key
from foltr.federated.messages import FAILED, packed, unpacked
from foltr.runs.user_files import Code
from foltr.serving.node_clients import device_with, keys_known, learning, records_in
from foltr.serving.only_one import only_one
from foltr.serving.seating import proof
from foltr.serving.settings import NodeTable, beside, read_node, settings_file

RECORD, FIELD = "foltr", "sum"  # record and field of `Context.state` with an unfinished sum
KEPT = "sum"  # name of its hash in the node's records
NOTHING = b"none"  # in place of the hash, if there is no unfinished sum
BUSY = 30.0  # seconds for which a message waits for the previous one

client_app = ClientApp()


@client_app.query()
def answer(message: Message, context: Context) -> Message:
    """Answer one ask. If this fails, the server gets only the class of the error, because the text
    may contain a path or a document of this node."""
    try:
        text = unpacked(message.content)
        answered, kept = answered_by(
            settings_file(context.node_config, "node"), text, kept_in(context)
        )
    except Exception as error:  # noqa: BLE001  # also errors in the user's own components
        tell(f"{type(error).__name__}: {error}")
        return Message(Error(FAILED, type(error).__name__), reply_to=message)
    context.state.pop(RECORD, None)
    if kept is not None:
        context.state[RECORD] = ConfigRecord({FIELD: kept})
    return Message(packed(answered), reply_to=message)


@client_app.query("seat")
def seat(message: Message, context: Context) -> Message:
    """Prove the node's identity to a server, where Flower does not authenticate nodes."""
    try:
        file = settings_file(context.node_config, "node")
        key = sign_key(file, read_node(file, Code())[1])
        if key is None:
            raise Mistake(
                f"{file}: [node] needs keys, the folder that `foltr keys node NAME` makes"
            )
        return Message(
            packed(proof(unpacked(message.content), context.node_id, key)), reply_to=message
        )
    except (Mistake, ValueError) as error:
        tell(f"{type(error).__name__}: {error}")
        return Message(Error(FAILED, type(error).__name__), reply_to=message)


def sign_key(file: Path, table: NodeTable) -> bytes | None:
    return None if table.keys is None else read_sign_key(beside(file, table.keys) / SIGN_KEY)


def answered_by(file: Path, text: bytes, kept: bytes | None) -> tuple[bytes, bytes | None]:
    """The answer to a frame, and the unfinished sum for the next process, if there is one."""
    agreed, table = read_node(file, Code())
    state = beside(file, table.state)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    with only_one(state, "node", BUSY), closing(records_in(state, agreed)) as records:
        key = sign_key(file, table)
        known = keys_known(agreed, table, file, tell)

        def engine_for(sessions: int) -> Engine:
            return learning(agreed, table, file, records)(sessions)

        device = device_with(agreed, table, records, engine_for, tell, key, known)
        if Frame.from_bytes(text).kind == Kind.HELLO:
            learning(agreed, table, file, records)  # reports a mistake in the data at once
        resume(device, kept)
        return device.answer(text), handed_on(device)


def resume(device: Device, kept: bytes | None) -> None:
    """Continue the sum that the SuperNode kept, unless another process has continued it."""
    if device.sums is None or kept is None:
        return
    if device.records.about(KEPT) != sha256(kept).digest():
        tell("the SuperNode's secure sum is outdated: the clients of this node drop out of it")
        return
    from foltr.federated.open_sum import OpenSum  # needs cryptography

    device.sums.begun = OpenSum.from_bytes(kept, device.sums.key, device.sums.known)


def handed_on(device: Device) -> bytes | None:
    """The unfinished sum, for the next process. Its hash is on disk before the answer is sent."""
    sums = device.sums
    if sums is None:
        return None
    goes_on = sums.begun is not None and not sums.begun.over
    kept = sums.begun.to_bytes() if goes_on and sums.begun is not None else None
    device.records.set_about(KEPT, NOTHING if kept is None else sha256(kept).digest())
    return kept


def kept_in(context: Context) -> bytes | None:
    record = context.state.get(RECORD)
    kept = record.get(FIELD) if isinstance(record, ConfigRecord) else None
    return kept if isinstance(kept, bytes) else None


def tell(text: str) -> None:
    """Write a line to the log of the SuperNode."""
    print(f"{time.strftime('%H:%M:%S')} foltr: {text}", file=sys.stderr, flush=True)
