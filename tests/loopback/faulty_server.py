"""A server that stops or dies at a step of a secure sum: `python -m faulty_server SERVER.toml`.

At the end of every step it looks for a file SERVER.fault, "STEP WHEN SIGNAL", and sends itself the
signal before or after it closes that step; LEARN is the one step of a round without a sum. What is
in a file SERVER.plant by then stays in its memory."""

import os
import signal
import sys
from pathlib import Path

from foltr.deployment.protocol.engine import Flower
from foltr.deployment.protocol.sums import SumRound
from foltr.deployment.server.serve import serve
from foltr.experiment.user_files import Code


def main(file):
    planned, plant, kept = file.with_suffix(".fault"), file.with_suffix(".plant"), []
    close, stack = SumRound.close, Flower._stacked

    def fault(step, when):
        words = planned.read_text().split() if planned.exists() else []
        if words[:2] == [step, when]:
            planned.unlink()
            if plant.exists():
                kept.append(plant.read_bytes())
            os.kill(os.getpid(), signal.Signals[words[2]])

    def closed(self):
        step = self._server.due.name
        fault(step, "before")
        made = close(self)
        fault(step, "after")
        return made

    def stacked(self, *given):
        made = stack(self, *given)
        fault("LEARN", "after")
        return made

    SumRound.close, Flower._stacked = closed, stacked
    serve(file, Code(), tell=lambda text: print(text, flush=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
