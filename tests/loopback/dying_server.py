"""`foltr serve` that is killed in the middle of a push: `python -m dying_server ROUND FILE.toml`.

Half of that round's asks have left when the process ends."""

import os
import signal
import sys
from pathlib import Path

from foltr.core.system.log import writer
from foltr.deployment.flower import internals as flower
from foltr.deployment.flower.session import Session
from foltr.deployment.server.serve import serve
from foltr.experiment.user_files import Code

tell = writer("text", "")

push, last = Session._push, sys.argv[1]


def dying(self, pairs):
    ids = push(self, pairs)
    about = pairs[0][0].metadata
    if about.group_id == last and about.message_type:
        tell("killed in the middle of a push")
        os.kill(os.getpid(), signal.SIGKILL)
    return ids


if __name__ == "__main__":
    flower.batches = lambda pairs: ([pair] for pair in pairs)  # one ask in each request
    Session._push = dying
    serve(Path(sys.argv[2]), Code(), tell=tell)
