"""`foltr demo --federation`: a server and five nodes as processes on this machine. One node is
malicious. Another one leaves, and the server unlearns it.

`python -m foltr.cli.demo_federation FILE.toml` is the malicious node."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

import numpy as np
from rich.console import Console

from foltr.cli.chart import Panel, Series, bounds, svg_chart, text_chart
from foltr.core.errors import require
from foltr.core.system.files import write_whole, writing
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.local import Deployment, stoppable
from foltr.deployment.node.node import run_node
from foltr.deployment.protocol.frames import Frame, Kind, Model, read_updates, write_updates
from foltr.deployment.protocol.participant import Participant
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code

NODES, CLIENTS_PER_NODE = 5, 4
ROUNDS = 120
STORED_ROUNDS = 10  # of updates, for unlearning
LEAVING_ROUND = 70
ATTACKER, LEAVER = "node-4", "node-3"
STRENGTH = 2.0  # z of CompromisedModel


def demo_federation(out: Path, seed: int) -> None:
    """Run the federation, and show it as text and a figure."""
    console, folder, began = Console(), out / "federation", time.monotonic()
    if folder.exists():
        made = (folder / "server.toml").exists()
        require(made, f"{folder} was not made by this demonstration: give another --out")
        rmtree(folder)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    e = Experiment(
        clients=NODES * CLIENTS_PER_NODE, rounds=ROUNDS, history=STORED_ROUNDS, seed=seed,
        aggregator=f"MultiKrum(malicious={CLIENTS_PER_NODE})",
    )  # fmt: skip
    # tolerance 1 turns the rollback guard off: it would hide the effect of the attack
    server = {"holdout": repr(e.data), "tolerance": 1.0, "deadline": 20.0}
    with stoppable(folder):
        with Deployment(folder, e, NODES, server, {"noise": "system"}) as here:
            console.print(
                f"starting a server and {NODES} nodes of {CLIENTS_PER_NODE} clients each, with TLS"
                f" and node keys, in {folder}"
            )
            here.start("server")
            here.wait_logged("server", "nodes connect to")
            for name in here.names:
                if name == ATTACKER:
                    here.start_module(name, "foltr.cli.demo_federation")
                else:
                    here.start(name)
            console.print(
                f"{ATTACKER} is malicious: it attacks the model (CompromisedModel, z={STRENGTH:g})"
            )
            here.wait_round(LEAVING_ROUND, 120.0)
            console.print(f"round {LEAVING_ROUND}: {LEAVER} leaves and asks to be forgotten")
            here.kill(LEAVER, 15)
            here.start(LEAVER, "--forget-me")
            here.wait_done(120.0)
            rounds, log = here.rounds(), here.log("server").splitlines()
            if read_roster(folder / "roster.toml").seat(LEAVER).revoked:
                console.print(f"{LEAVER} is forgotten, and its key is revoked")
            else:
                console.print(f"{LEAVER} has not been forgotten yet")
        simulated = undefended(seed)
    measured = [(line["round"] + 1, line["ndcg"]) for line in rounds if "ndcg" in line]
    defended = Series("MultiKrum (this federation)", *map(np.array, zip(*measured, strict=True)))
    first = next((i for i, line in enumerate(rounds) if "forget" in line["failures"]), 0) + 1
    plans = [line for line in log if "forgotten after round" in line]
    last = int(plans[0].rsplit(" ", 1)[1]) if plans else 0
    title = f"{ATTACKER} is malicious; rounds {first} to {last}: {LEAVER} is unlearned"
    panel = Panel(title, (defended, simulated))
    console.print("nDCG@10 on held-out queries, by round")
    console.print(text_chart(panel, bounds([panel])))
    figure = out / "federation.svg"
    axes = ("round", "held-out nDCG@10 (built-in data)")
    write_whole(figure, svg_chart("", *axes, [panel]))
    console.print(
        f"nDCG@10 after {ROUNDS} rounds: {defended.y[-1]:.3f}, and {simulated.y[-1]:.3f} without"
        " the defence"
    )
    seconds = time.monotonic() - began
    console.print(f"{seconds:.0f} s in total. Figure: {figure}   Files: {folder}")


def undefended(seed: int) -> Series:
    """The same attack on the plain mean, in a simulation."""
    e = Experiment(
        clients=NODES * CLIENTS_PER_NODE, rounds=ROUNDS, attack=f"CompromisedModel(z={STRENGTH})",
        malicious=CLIENTS_PER_NODE, evaluate_every=1, seed=seed,
    )  # fmt: skip
    rounds, values = e.run().curve("ndcg@10")
    return Series("mean (simulated)", rounds[1:], values[1:])


def malicious(device: Participant) -> Callable[[bytes], bytes]:
    """The `answer` function of a device, with changed updates."""

    def answer(text: bytes) -> bytes:
        ask, made = Frame.from_bytes(text), Frame.from_bytes(device.answer(text))
        if made.kind != Kind.LEARNED:
            return made.to_bytes()
        params = Model.from_bytes(ask.payload, device.d).params
        updates, weights = read_updates(made.payload, len(made.clients))
        crafted = (-STRENGTH * updates - (STRENGTH + 1.0) * params).astype(updates.dtype)
        return made.answer(made.kind, made.clients, write_updates(crafted, weights)).to_bytes()

    return answer


if __name__ == "__main__":
    run_node(Path(sys.argv[1]), Code(), changed=malicious)
