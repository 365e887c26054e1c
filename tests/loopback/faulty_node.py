"""A node that dies or lies at a step of a secure sum: `python -m faulty_node NODE.toml`.

At the beginning of a sum it looks for a file NODE.fault, "ROUND STEP FAULT", and in that round
takes it away. FAULT is when it is killed (before it makes the answer; when the answer is made, but
not sent; after it was sent) or a lie. What it unmasks is in its log."""

import os
import signal
import sys
from pathlib import Path

from foltr.deployment.flower.node import Node
from foltr.deployment.node import connections
from foltr.deployment.node.node import run_node
from foltr.deployment.protocol.frames import Frame, Kind, read_parts, write_parts
from foltr.experiment.user_files import Code
from foltr.secure_sum.arithmetic import SHARE
from foltr.secure_sum.messages import HEADER
from foltr.secure_sum.messages import Kind as Step
from foltr.secure_sum.server import DIGEST, ENTRY, OWN


def with_body(message, body):
    """A message with another body, of which it tells the length."""
    return message[: HEADER.size - 4] + len(body).to_bytes(4, "little") + body


def exchanged(message, first, second, size):
    parts = bytearray(message)
    parts[first : first + size] = message[second : second + size]
    parts[second : second + size] = message[first : first + size]
    return bytes(parts)


SEALED = HEADER.size + OWN + 2 * DIGEST  # where the shares for the first neighbour are
LIES = {
    "short": lambda message: with_body(message, message[HEADER.size : -8]),
    "long": lambda message: with_body(message, message[HEADER.size :] + bytes(8)),
    # the shares for the first two neighbours, or those of the first two clients
    "sealed": lambda message: exchanged(message, SEALED, SEALED + ENTRY, ENTRY - 2 * DIGEST),
    "revealed": lambda message: exchanged(message, HEADER.size, HEADER.size + SHARE, SHARE),
}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Faulty:
    """The answers of a node, and one fault."""

    def __init__(self, participant, file):
        self.participant, self.file = participant, file
        self.step = self.fault = self.now = None
        self.old = {}  # step -> the answer in the sum before

    def answer(self, text):
        ask = Frame.from_bytes(text)
        self.now = None
        if ask.kind not in (Kind.OPEN, Kind.SUM):
            return self.participant.answer(text)
        parts = read_parts(ask.payload, 3 if ask.kind == Kind.OPEN else 2 + len(ask.clients))
        step = Step.KEYS if ask.kind == Kind.OPEN else Step(parts[0][0])
        if ask.kind == Kind.OPEN:
            self._plan(ask.round)
        self.now = step.name
        if self.due("before"):
            die()
        made = Frame.from_bytes(self.participant.answer(text))
        if step == Step.UNMASK and made.kind == Kind.SUMMED:
            print(f"unmasked {ask.round} {parts[1].hex()}", flush=True)
        if self.due("made"):
            die()
        before, self.old[step] = self.old.get(step), made
        if self.step != self.now or made.kind != Kind.SUMMED:
            return made.to_bytes()
        return self._changed(made, before).to_bytes()

    def due(self, fault):
        return (self.step, self.fault) == (self.now, fault)

    def _plan(self, round):
        file, self.step, self.fault = self.file.with_suffix(".fault"), None, None
        if file.exists():
            first, step, fault = file.read_text().split()
            if round >= int(first):
                self.step, self.fault = step, fault
                file.unlink()
                print(f"fault in {round}: {step} {fault}", flush=True)

    def _changed(self, made, before):
        if self.fault == "old-frame":
            return before
        messages = read_parts(made.payload, len(made.clients))
        if self.fault == "replayed":
            messages = read_parts(before.payload, len(before.clients))
        elif self.fault == "swapped":
            messages = messages[::-1]
        elif self.fault in LIES:
            messages = list(map(LIES[self.fault], messages))
        return made.answer(made.kind, made.clients, write_parts(messages))


def main(file):
    class Dying(Node):
        def _insist(self, *given):
            status = super()._insist(*given)
            if faulty and faulty[0].due("after"):
                die()
            return status

    def changed(participant):
        faulty.append(Faulty(participant, file))
        return faulty[0].answer

    faulty = []
    connections.Node = Dying
    run_node(file, Code(), changed=changed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
