"""A device whose process is killed at a moment of an answer: `python -m dying_device WHEN FOLDER`.
WHEN is

    learned  the message is made, and nothing is on disk
    stored   the answer is in the records
    noted    the log has noted the message, and the gateway has not got it
    sent     the gateway has the answer, and the device has not noted that

With `forget`, it asks to be forgotten, and is killed while it deletes what it has stored:

    records  the records are deleted
    told     the records say that the server has forgotten it
    key      the key is deleted
    alone    the ranker goes on alone, and the files say that the device has joined"""

import os
import signal
import sys
from pathlib import Path

from foltr.deployment.gateway.client import GatewayClient
from foltr.deployment.protocol.participant import FORGOTTEN
from foltr.device.click_log import ClickLog
from foltr.device.home import DeviceRecords, FederationFiles, Home
from foltr.device.learning import LocalRanker
from foltr.device.membership import Membership
from foltr.device.running import Running


def die():
    print("killed", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def dying(kind, name, before=False, only=lambda *given: True):
    usual = getattr(kind, name)

    def changed(self, *given, **named):
        fits = only(*given)
        if before and fits:
            die()
        made = usual(self, *given, **named)
        if fits and made is not False:  # False: there was nothing to do
            die()
        return made

    setattr(kind, name, changed)


def prepare(when):
    match when:
        case "learned":
            dying(DeviceRecords, "keep", before=True)
        case "stored":
            dying(DeviceRecords, "keep")
        case "noted":
            dying(ClickLog, "note_message")
        case "sent":
            dying(Membership, "_note_arrival", before=True)
        case "records":
            dying(DeviceRecords, "forget")
        case "told":
            dying(DeviceRecords, "set_about", only=lambda name, value: name == FORGOTTEN)
        case "key":
            dying(FederationFiles, "delete_keys")
        case "alone":
            dying(LocalRanker, "end_membership")
        case _:
            raise SystemExit(f"no moment {when!r}")


def main(when, folder, *forget):
    running = Running(Home(Path(folder)), tell=lambda text: print(text, flush=True))
    GatewayClient.wait = 5
    running.membership.gateway.wait = 5
    prepare(when)
    if forget:
        print(running.leave(True), flush=True)
    while True:
        running.membership.once()


if __name__ == "__main__":
    main(*sys.argv[1:])
