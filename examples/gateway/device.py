"""A device behind a gateway: it joins a federation, learns from its own clicks, and answers asks.

    python device.py https://localhost:8445 ca.pem device-folder INVITATION

The gateway is started by `foltr gateway`; `foltr gateway FILE --invite 1` makes the invitation.
Here the documents are made up and the clicks simulated. A real device replaces `engine_for` by a
function that returns an engine over its own documents and clicks, such as
`foltr.deployment.node.logged.Logged`."""

import signal
import sys
import threading
from pathlib import Path

from foltr.components.partitions.iid import IID
from foltr.components.sources.synthetic import Synthetic
from foltr.components.users.cascade import Cascade
from foltr.core.errors import Mistake
from foltr.deployment.gateway.client import Excluded, GatewayClient, Requests, Unavailable
from foltr.deployment.gateway.device_folder import DeviceFolder
from foltr.deployment.gateway.signing import Ed25519PrivateKey
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.node.clients import engines
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.participant import Participant


def main(url: str, ca: str, folder: str, invitation: str) -> None:
    tls = trusting(Path(ca))

    # What does this federation do? A device asks before it joins.
    stranger = Requests(Ed25519PrivateKey.generate(), b"")
    about = GatewayClient(url, stranger, tls).about()
    agreed = Agreement.from_text(about["agreement"])
    print(
        f"{agreed.learner!r}, privacy {agreed.privacy!r}; the gateway sees {about['gateway_sees']}"
    )

    # Join: the folder keeps the key, the client number, the agreement and the budget.
    home = DeviceFolder(Path(folder))
    gateway = GatewayClient(url, home.requests(agreed), tls, tell=print)
    number = home.join(gateway, agreed, invitation)
    print(f"this device is client {number}")

    # The device's own documents and clicks.
    documents = Synthetic(queries=20, seed=number).load("train")  # with the agreed features
    population = IID().population(documents, Cascade(), 1, agreed.learner.sessions, seed=number)
    device = Participant(
        agreed,
        clients=range(number, number + 1),
        engine_for=engines(agreed, population, seed=number),
        records=home.records(agreed),
        offset=number,  # this client is row 0 of the engine
        tell=print,
    )

    if agreed.protocol is not None:  # updates are sent in secure sums only
        from foltr.deployment.protocol.sums import SumParticipant

        device.sums = SumParticipant(agreed.protocol, agreed.fewest)

    # Answer asks until Ctrl-C or SIGTERM.
    stop = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: stop.set())
    gateway.serve(device.answer, stop)
    print(f"stopped: client {number} continues with the same command")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: python device.py https://HOST:PORT CA_FILE FOLDER INVITATION")
    sys.stdout.reconfigure(line_buffering=True)  # a log file shows each line at once
    try:
        main(*sys.argv[1:])
    except Excluded as excluded:  # it was revoked, or it was forgotten, as it wished
        sys.exit(f"this device takes part no more: {excluded}")
    except (Mistake, Unavailable) as error:
        sys.exit(str(error))
