"""foltr's ServerApp, for a stock SuperLink (`foltr.deployment.server.flower_server:server_app`).

It runs the rounds of `foltr serve` on the Grid that Flower provides, and uses the same state
folder. Another `flwr run` continues after the last round."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from foltr.core.errors import Mistake
from foltr.core.system.lock import only_one
from foltr.deployment.node.flower_client import Seated
from foltr.deployment.server.continuing import check_after, resume
from foltr.deployment.server.federation import Federation
from foltr.deployment.server.live_roster import LiveRoster
from foltr.deployment.server.rounds import Rounds, board_of
from foltr.deployment.server.state_folder import open_state
from foltr.deployment.settings import beside, read_server, settings_file
from foltr.experiment.user_files import Code

NONE = -1  # value of `continue-after` that means nothing
BUSY = 30.0  # seconds to wait until a previous server has stopped

server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the remaining rounds."""
    file = settings_file(context.run_config, "server")
    agreed, table = read_server(file, Code())
    roster = beside(file, table.roster)
    live = LiveRoster(roster, Seated(grid, lambda: live(), table.deadline), tell)
    live()  # reports mistakes in the roster before any node is asked
    given = int(context.run_config.get("continue-after", NONE))
    after = None if given == NONE else given
    state = open_state(beside(file, table.state), tell)
    state.check_agreement(agreed)
    check_after(state, after, agreed.rounds)
    state.check_roster(live())

    with only_one(state.folder, "server", BUSY), closing(state):
        board, stopping = board_of(agreed, table), threading.Event()
        engine = Federation(grid, agreed, live, table, state, board, tell, stopping=stopping)
        rounds = Rounds(engine)
        rounds.start()
        tell(f"federation {agreed.id.hex()[:12]}")
        engine.wait_for_nodes()
        if not live.reachable(fresh=True):
            raise Mistake(nobody(list(grid.get_nodes())))
        start = resume(engine, after, "flwr run --run-config continue-after=")
        done = rounds.run(start)
        tell(f"all {done.t:,} rounds are done: the model is {rounds.save_ranker()}")


def nobody(peers: list[Any]) -> str:
    """Why there is no node to ask."""
    if not peers:
        return "no SuperNode is connected: start the SuperNodes, then `flwr run` again"
    return (
        f"{len(peers)} SuperNodes are connected, and none has a seat in the roster: with Flower's"
        " node authentication, add each node's key (`foltr keys add`); without it, set keys in"
        " each node's [node] table, and see the SuperNode's log"
    )


def tell(text: str) -> None:
    """Write a line to the log of the run, which `flwr log` shows."""
    print(f"{time.strftime('%H:%M:%S')} foltr: {text}", flush=True)
