"""A malicious node, for demonstrations and tests: `python -m foltr.serving.attacker FILE.toml`.

It takes part like any other node, but changes what its clients send, like the attack
`CompromisedModel`: -z u - (z + 1) w, where u is the update and w the model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from foltr.federated.device import Device
from foltr.federated.frames import Frame, Kind, Model, read_updates, write_updates
from foltr.runs.user_files import Code
from foltr.serving.node import run_node

Z = 2.0


def malicious(device: Device) -> Callable[[bytes], bytes]:
    """The `answer` function of a device, with changed updates."""

    def answer(text: bytes) -> bytes:
        ask, made = Frame.from_bytes(text), Frame.from_bytes(device.answer(text))
        if made.kind != Kind.LEARNED:
            return made.to_bytes()
        params = Model.from_bytes(ask.payload, device.d).params
        updates, weights = read_updates(made.payload, len(made.clients))
        crafted = (-Z * updates - (Z + 1.0) * params).astype(updates.dtype)
        return made.answer(made.kind, made.clients, write_updates(crafted, weights)).to_bytes()

    return answer


if __name__ == "__main__":
    run_node(Path(sys.argv[1]), Code(), changed=malicious)
