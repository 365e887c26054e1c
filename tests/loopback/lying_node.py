"""A node that fails or lies: `python -m lying_node FAULTS FILE.toml`.

FAULTS are names of the menu below with a round each, as in `nan@3,gate@5`; `pace@0.3` makes every
answer take so many seconds longer, and `clock@10` sets the node's clock wrong by so many."""

import functools
import os
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np

import foltr.deployment.node.connections as connections
from foltr.core.errors import Mistake
from foltr.core.system.log import writer
from foltr.deployment.flower.internals import httpx
from foltr.deployment.flower.node import Node, utc
from foltr.deployment.node.node import run_node
from foltr.deployment.protocol.frames import MODEL, Frame, Kind, read_updates, write_updates
from foltr.experiment.user_files import Code

tell = writer("text", "")


def updated(change):
    """An answer with other updates."""

    def lie(ask, answer, before):
        updates, weights = read_updates(answer.payload, len(answer.clients))
        return replace(answer, payload=write_updates(change(updates.copy()), weights)).to_bytes()

    return lie


def gate(ask, answer, before):
    """The honest answer, once the test has opened the gate: it is stored and not yet sent."""
    tell(f"at the gate of round {ask.round}")
    while not Path(f"gate-{ask.round}").exists():
        time.sleep(0.02)
    return answer.to_bytes()


def poison(ask, answer, before):
    """Updates that turn the model around."""
    params = np.frombuffer(ask.payload[MODEL.size :], "<f4")
    return updated(lambda u: np.tile(-9 * params, (len(u), 1)))(ask, answer, before)


def version(ask, answer, before):
    text = bytearray(answer.to_bytes())
    text[2] = 9
    return bytes(text)


MENU = {
    "honest": lambda ask, answer, before: answer.to_bytes(),
    "garbage": lambda ask, answer, before: os.urandom(300),
    "nan": updated(lambda u: u * np.float32(np.nan)),
    "shape": updated(lambda u: np.concatenate([u, u[:, :1]], axis=1)),
    "huge": updated(lambda u: u + np.float32(1e30)),
    "old": lambda ask, answer, before: before,
    "another": lambda ask, answer, before: replace(
        answer, clients=tuple(range(len(answer.clients)))
    ).to_bytes(),
    "version": version,
    "bulky": lambda ask, answer, before: answer.to_bytes() + bytes(2_000_000),
    "kind": lambda ask, answer, before: replace(answer, kind=Kind.WELCOME).to_bytes(),
    "refusal": lambda ask, answer, before: ask.answer(Kind.REFUSED, (), b"\xff" * 99).to_bytes(),
    "poison": poison,
    "gate": gate,
}
OTHERS = ("twice", "forged", "raise", "crash", "pace", "clock")


def faulty(faults, participant):
    """The answers of a node, with the faults of the menu."""
    last = [b""]
    pace = sum(float(value) for name, value in faults if name == "pace")
    broken = {int(value) for name, value in faults if name == "raise"}
    if broken:
        participant.engine_for = raising(participant.engine_for, broken)

    def answer(text):
        ask = Frame.from_bytes(text)
        if ask.kind not in (Kind.LEARN, Kind.OPEN):
            return participant.answer(text)
        if ("crash", str(ask.round)) in faults:
            raise RuntimeError("a secret of this node")
        before, made = last[0], participant.answer(text)
        last[0] = made
        time.sleep(pace)
        for name, value in faults:
            if name in MENU and int(value) == ask.round:
                return MENU[name](ask, Frame.from_bytes(made), before)
        return made

    return answer


def raising(make, rounds):
    """Engines in which the code of the last client raises in some rounds."""

    def engine_for(sessions):
        engine = make(sessions)
        collect, last = engine.collect, len(engine.memory) - 1

        def broken(ask, clients):
            if ask.t in rounds and last in clients.tolist():
                raise ValueError("a secret of this client")
            return collect(ask, clients)

        engine.collect = broken
        return engine

    return engine_for


class Sender(Node):
    """Tells when an answer has left; sends those of some rounds twice, or as another node's."""

    def __init__(self, faults, *given, **more):
        self.twice, self.forged = (
            {value for name, value in faults if name == kind} for kind in OTHERS[:2]
        )
        super().__init__(*given, **more)

    def _push(self, request):
        group = request.messages_list[0].metadata.group_id
        if group in self.forged:
            forged = type(request).FromString(request.SerializeToString())
            forged.messages_list[0].metadata.src_node_id ^= 1
            try:
                super()._push(forged)
            except httpx.HTTPStatusError as error:
                tell(f"as another node: {error.response.status_code}")
        super()._push(request)
        tell(f"sent the answer of round {group}")
        if group in self.twice:
            try:
                super()._push(request)
            except httpx.HTTPStatusError as error:
                tell(f"the second time: {error.response.status_code}")


def main(words, file):
    faults = [tuple(word.split("@")) for word in words.split(",")]
    unknown = {name for name, _ in faults} - MENU.keys() - set(OTHERS)
    assert not unknown, unknown
    ahead = timedelta(seconds=sum(float(value) for name, value in faults if name == "clock"))
    connections.Node = functools.partial(Sender, faults, clock=lambda: utc() + ahead)
    try:
        run_node(Path(file), Code(), tell=tell, changed=functools.partial(faulty, faults))
    except Mistake as mistake:
        tell(f"Mistake: {mistake}")
        sys.exit(2)


if __name__ == "__main__":
    main(*sys.argv[1:])
