"""foltr's two Flower apps in this process: every message is answered by the ClientApp as a new
process would, with nothing but the node's folder and what its SuperNode keeps."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from flwr.app import Context, RecordDict

from federation_in_process import InProcessGrid
from foltr.deployment.keys.keys import make_node
from foltr.deployment.keys.roster_file import add_node
from foltr.deployment.node.flower_client import client_app
from foltr.deployment.server.flower_server import server_app
from foltr.deployment.server.state import FILE, ServerState

AGREED = 'features = 46\nnoise = "address"\nlearner = "PDGD(sessions=4)"\nrounds = 2\n'
DATA = "Synthetic(queries=60)"


class Apps(InProcessGrid):
    """Nodes without keys of Flower's: their seats are found by challenges."""

    def __init__(self, contexts):
        super().__init__(dict.fromkeys(contexts))
        self.contexts, self.asked = contexts, []

    def get_nodes(self):
        return [SimpleNamespace(node_id=node, public_key=b"") for node in self.contexts]

    def push_messages(self, messages):
        messages = list(messages)
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
        return super().push_messages(messages)

    def _reply(self, message):
        self.asked.append(message)
        return client_app(message, self.contexts[message.metadata.dst_node_id])


@dataclass
class Federation:
    """The folders of a server and of nodes with so many clients."""

    folder: Path
    nodes: tuple[int, ...] = (4, 5, 3)
    agreed: str = AGREED
    server: str = ""
    contexts: dict = field(default_factory=dict)

    def __post_init__(self):
        n = sum(self.nodes)
        self.agreed += f"asked = {n}\n"
        table = '[server]\nroster = "roster.toml"\nstate = "state"\nseed = 7\nwait = 1.0\n'
        (self.folder / "server.toml").write_text(f"{self.agreed}{table}{self.server}")
        for number, clients in enumerate(self.nodes):
            own = self.folder / f"node-{number}"
            seat, _ = make_node(own / "keys", f"node-{number}", clients)
            add_node(self.folder / "roster.toml", seat)
            table = '[node]\nserver = "127.0.0.1:1"\nstate = "state"\nkeys = "keys"\n'
            table += f'roster = "../roster.toml"\nclients = {clients}\npopulation = {n}\n'
            table += f'data = "{DATA}"\nseed = 7\n'
            (own / "node.toml").write_text(f"{self.agreed}{table}")
            config = {"settings": str(own / "node.toml")}
            node = 2 + number
            self.contexts[node] = Context(1, node, config, RecordDict(), {}, "series")
        self.grid = Apps(self.contexts)

    def run(self):
        config = {"settings": str(self.folder / "server.toml")}
        server_app(self.grid, Context(1, 1, {}, RecordDict(), config, "series"))

    @property
    def state(self):
        return ServerState(self.folder / "state" / FILE)

    @property
    def params(self):
        return self.state.load().params
