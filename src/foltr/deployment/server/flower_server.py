"""foltr's ServerApp, for a stock SuperLink (`foltr.deployment.server.flower_server:server_app`).

It runs the rounds of `foltr serve` on the Grid that Flower provides, and uses the same state
folder. Another `flwr run` continues after the last round."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from foltr.core.errors import Mistake
from foltr.deployment.guarantee import only_one
from foltr.deployment.node.flower_client import Seated
from foltr.deployment.protocol.engine import Flower
from foltr.deployment.server.continuing import ask_last_rounds, check_mark, resume
from foltr.deployment.server.live_roster import LiveRoster, wait_for_nodes
from foltr.deployment.server.rounds import Rounds
from foltr.deployment.server.state import ServerState
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
    state = ServerState(beside(file, table.state))
    roster = beside(file, table.roster)
    live = LiveRoster(roster, Seated(grid, lambda: live(), table.deadline), tell)
    live()  # reports mistakes in the roster before any node is asked
    given = int(context.run_config.get("continue-after", NONE))
    after = None if given == NONE else given
    mark = check_mark(state, after, agreed.rounds)
    state.open(agreed)
    state.check_roster(live())

    with only_one(state.path, "server", BUSY):
        engine = Flower(
            grid,
            agreed,
            live.reachable,
            deadline=table.deadline,
            largest=table.max_norm,
            known=live.known,
            filled=live.filled,
            patience=table.deadline,
        )
        rounds = Rounds(agreed, table, state, engine, live, tell, live.name_of, live.shut_out)
        start = rounds.start()
        tell(f"federation {agreed.id.hex()[:12]}")
        wait_for_nodes(live, table.wait, threading.Event(), tell)
        if not live.reachable(fresh=True):
            raise Mistake(nobody(list(grid.get_nodes())))
        if mark is not None:
            said = partial(ask_last_rounds, engine, live)
            command = "flwr run --run-config continue-after="
            start = resume(state, start, mark, after, agreed.rounds, said, command, tell)
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
