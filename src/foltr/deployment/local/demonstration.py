"""`foltr demo --federation`: a server and five nodes as processes on this machine. One node is
malicious. Another one leaves, and the server unlearns it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foltr.core import Array
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.local.deployment import Deployment
from foltr.deployment.node.node import run_node
from foltr.deployment.protocol.frames import Frame, Kind, Model, read_updates, write_updates
from foltr.deployment.protocol.participant import Participant
from foltr.experiment import Experiment
from foltr.experiment.user_files import Code

NODES, EACH, ROUNDS, STORED, LEAVES = 5, 4, 120, 10, 70
ATTACKER, LEAVER = "node-4", "node-3"


@dataclass(frozen=True)
class Shown:
    """The results of the demonstration: held-out nDCG@10 by round."""

    federation: Array  # (rounds, 2)
    undefended: Array  # (rounds, 2) simulated, with the mean instead of a robust rule
    forgotten: tuple[int, int]  # first and last round of unlearning
    seconds: float


def experiment(seed: int) -> Experiment:
    rule = f"MultiKrum(malicious={EACH})"
    return Experiment(
        clients=NODES * EACH, rounds=ROUNDS, aggregator=rule, history=STORED, seed=seed
    )


def demonstrate(folder: Path, seed: int, tell: Callable[[str], None]) -> Shown:
    """Run the demonstration in `folder`, which must not exist."""
    e, began = experiment(seed), time.monotonic()
    # tolerance 1 turns the rollback guard off: it would hide the effect of the attack
    server = {"holdout": repr(e.data), "tolerance": 1.0, "deadline": 20.0}
    with Deployment(folder, e, NODES, server, {"noise": "system"}) as here:
        tell(
            f"starting a server and {NODES} nodes of {EACH} clients each, with TLS and node keys,"
            f" in {folder}"
        )
        here.start("server")
        here.wait_logged("server", "nodes connect to")
        for name in here.names:
            if name == ATTACKER:
                here.start_module(name, "foltr.deployment.local.demonstration")
            else:
                here.start(name)
        tell(f"{ATTACKER} is malicious: it attacks the model (CompromisedModel, z={Z:g})")
        here.wait_round(LEAVES, 120.0)
        tell(f"round {LEAVES}: {LEAVER} leaves and asks to be forgotten")
        here.kill(LEAVER, 15)
        here.start(LEAVER, "--forget-me")
        here.wait_done(120.0)
        lines = here.rounds()
        left = read_roster(here.folder / "roster.toml").seat(LEAVER).revoked
        done = f"{LEAVER} is forgotten, and its key is revoked"
        tell(done if left else f"{LEAVER} has not been forgotten yet")
        text = here.log("server")
    plan = [line for line in text.splitlines() if "forgotten after round" in line]
    last = int(plan[0].rsplit(" ", 1)[1]) if plan else 0
    asked = next((i for i, line in enumerate(lines) if "forget" in line["failures"]), 0) + 1
    curve = np.array([(line["round"] + 1, line["ndcg"]) for line in lines if "ndcg" in line])
    return Shown(curve, undefended(seed), (asked, last), time.monotonic() - began)


def undefended(seed: int) -> Array:
    """The same attack on the plain mean, in a simulation."""
    attack = f"CompromisedModel(z={Z})"
    e = Experiment(
        clients=NODES * EACH, rounds=ROUNDS, attack=attack, malicious=EACH, evaluate_every=1,
        seed=seed,
    )  # fmt: skip
    rounds, values = e.run().curve("ndcg@10")
    return np.stack([rounds[1:], values[1:]], axis=1)


# A malicious node, for demonstrations and tests: `python -m
# foltr.deployment.local.demonstration FILE.toml`.

Z = 2.0


def malicious(device: Participant) -> Callable[[bytes], bytes]:
    """The `answer` function of a device, with changed updates."""

    def answer(text: bytes) -> bytes:
        ask, made = Frame.from_bytes(text), Frame.from_bytes(device.answer(text))
        if made.kind != Kind.LEARNED:
            return made.to_bytes()
        params = Model.from_bytes(ask.payload, device.d).params
        updates, weights = read_updates(made.payload, len(made.clients))
        crafted = (-Z * updates - (Z + 1.0) * params).astype(updates.dtype)
        return made.answer(made.kind, made.clients, write_updates(crafted, weights)).to_bytes()

    return answer


if __name__ == "__main__":
    run_node(Path(sys.argv[1]), Code(), changed=malicious)
