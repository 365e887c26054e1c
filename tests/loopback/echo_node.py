"""A node process that answers every ask with the same bytes. Its arguments are JSON: those of
`Node`, `ahead` (seconds that its clock is wrong) and `slow` (seconds per answer)."""

import json
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

from foltr.core.errors import Mistake
from foltr.deployment.flower.node import Asked, Node, utc
from foltr.deployment.protocol.messages import NoAnswer


def answer(ask: Asked) -> bytes:
    frame = ask.frame
    time.sleep(slow)
    if frame == b"raise":
        raise RuntimeError("secret of this node")
    if frame == b"refuse":
        raise NoAnswer("not today", 1234)
    return frame


given = json.loads(sys.argv[1])
ahead, slow = timedelta(seconds=given.pop("ahead", 0)), given.pop("slow", 0.0)
for name in ("key", "roots"):
    given[name] = Path(given[name]) if given.get(name) else None
try:
    node = Node(
        answer=answer,
        tell=lambda text: print(text, flush=True),
        clock=lambda: utc() + ahead,
        **given,
    )
    node.serve(threading.Event())
except Mistake as mistake:
    print(f"Mistake: {mistake}", flush=True)
    sys.exit(2)
