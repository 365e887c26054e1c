"""A server process that pushes asks for ever, until it is killed. Arguments: url, secret file,
folder."""

import sys
from pathlib import Path

from foltr.deployment.flower.session import Session

url, secret, folder = sys.argv[1:]
session = Session(url, Path(secret).read_text(), Path(folder))
print("open", flush=True)
while True:
    ids = [peer.node_id for peer in session.get_nodes()]
    session.push_messages([session.message(bytes(100_000), node, 600.0) for node in ids])
    print("pushed", flush=True)
