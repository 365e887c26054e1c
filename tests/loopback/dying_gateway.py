"""`foltr gateway` that is killed at a moment of a step: `python -m dying_gateway WHEN@ROUND.STEP
FILE.toml`. STEP counts the asks of a round, from 0. WHEN is

    begin   the ask has arrived, and nothing is on disk
    asked   a device is about to get the ask
    some    a few answers are on disk, and their devices have not been told
    all     all answers are on disk, and the server has not been told
    sent    the server has the answer"""

import os
import signal
import sys
from collections import Counter
from pathlib import Path

from foltr.deployment.flower.node import Node
from foltr.deployment.gateway.enrolment import Enrolment
from foltr.deployment.gateway.gateway import Gateway
from foltr.deployment.gateway.process import run_gateway
from foltr.deployment.gateway.steps import Step
from foltr.experiment.user_files import Code

SOME = 3  # answers


def tell(text):
    print(text, flush=True)


def main(where, file):
    when, _, place = where.partition("@")
    round, step = map(int, place.split("."))
    seen, now = Counter(), [None]
    run, part, on_disk = Gateway._run, Step.ask_for, Gateway._on_disk
    begin, joined, push = Enrolment.begin, Step.joined, Node._push

    def die(at):
        if at == when and now[0] == (round, step):
            tell(f"killed: {where}")
            os.kill(os.getpid(), signal.SIGKILL)

    async def one(self, made, *times):
        t = made.ask.round
        now[0] = t, seen[t]
        seen[t] += 1
        return await run(self, made, *times)

    def begun(self, *given):
        die("begin")
        return begin(self, *given)

    def asked(self, client):
        die("asked")
        return part(self, client)

    def written(self, batch):
        on_disk(self, batch)
        if len(self.answers) >= SOME:
            die("some")

    def whole(self, answers):
        die("all")
        return joined(self, answers)

    def pushed(self, request):
        push(self, request)
        die("sent")

    Gateway._run, Step.ask_for, Gateway._on_disk = one, asked, written
    Enrolment.begin, Step.joined, Node._push = begun, whole, pushed
    run_gateway(Path(file), Code(()), tell=tell)


if __name__ == "__main__":
    main(*sys.argv[1:])
