"""A server's settings and state, as a few rounds leave them; no server has run."""

import numpy as np

from foltr.core.federation import State
from foltr.deployment.keys.keys import make_node
from foltr.deployment.keys.roster_file import add_node, read_roster
from foltr.deployment.server.state_folder import open_state
from foltr.deployment.settings import read_server
from foltr.experiment.user_files import Code

TEXT = """
features = 3
asked = 4
rounds = {rounds}
[server]
roster = "roster.toml"
state = "state"
"""


def small_server(folder, rounds=20, done=5):
    """The settings file, and the state after some rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "server.toml"
    file.write_text(TEXT.format(rounds=rounds))
    if not (folder / "roster.toml").exists():
        for name in ("a", "b"):
            add_node(folder / "roster.toml", make_node(folder / name, name, 2)[0])
    agreed, _ = read_server(file, Code())
    state = open_state(folder / "state", print)
    state.check_agreement(agreed)
    state.check_roster(read_roster(folder / "roster.toml"))
    state.seed(None)
    for t in range(done):
        one_round(state, t)
    return file, state


def one_round(state, t):
    """What a server writes after round t."""
    params = np.full(3, float(t))
    with state.together():
        state.add_participants(t, np.arange(4))
        state.add_contributors(np.arange(4))
        state.keep_model(t + 1, params, 100)
        state.save(State(params, (), (), t + 1, 0))
        state.add_round({"round": t, "answered": 4})
