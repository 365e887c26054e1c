"""All of foltr's uses of Flower's private modules. No other file imports them.

foltr uses Flower's messages, its HTTP clients and its SuperLink application. It does not use
Flower's own loops: they end the process when a connection is lost (SIGINT to itself, `flwr_exit`).
"""

import io
import logging
import ssl
import zipfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, TypeVar

from foltr.core.errors import Mistake
from foltr.deployment import INSTALL
from foltr.deployment.flower.doors import NODE, RINGS, WAIT, Bell, Homes, Sender, again, shown

try:
    import httpx
    from flwr.app import Message
    from flwr.common.constant import SUPERLINK_NODE_ID
    from flwr.common.serde import message_from_proto, message_to_proto
    from flwr.proto import (
        control_pb2,
        fab_pb2,
        fleet_pb2,
        heartbeat_pb2,
        message_pb2,
        node_pb2,
        runtime_pb2,
    )
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, TASK_TOKEN_HEADER, TaskType
    from flwr.supercore.control.control_http_client import ControlHttpClient
    from flwr.supercore.error import ApiErrorCode, FlowerError
    from flwr.supercore.primitives.asymmetric import sign_message
    from flwr.supercore.protobuf.client import ProtobufClient
    from flwr.supercore.run import Run
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from google.protobuf.message import DecodeError
except ImportError as error:
    raise Mistake(
        f"Flower 1.41 is needed, and it is missing or has another version ({error}): {INSTALL}"
    ) from error

if not version("flwr").startswith("1.41."):
    raise Mistake(f"Flower {version('flwr')} is installed, 1.41 is needed: {INSTALL}")

__all__ = [
    "SUPERLINK_NODE_ID",
    "TASK_TOKEN_HEADER",
    "ApiErrorCode",
    "ControlHttpClient",
    "DecodeError",
    "FleetHttpClient",
    "Run",
    "RuntimeHttpClient",
    "TaskIdentity",
    "TaskType",
    "as_proto",
    "batches",
    "client",
    "control_pb2",
    "error_code",
    "fab_pb2",
    "fleet_pb2",
    "from_proto",
    "heartbeat_pb2",
    "httpx",
    "hurry",
    "message_pb2",
    "node_pb2",
    "nothing_to_run",
    "runtime_pb2",
    "sender_of",
    "sign_message",
    "superlink_app",
]

logging.getLogger("flwr").setLevel(logging.ERROR)
logging.getLogger("httpx").setLevel(logging.WARNING)

Client = TypeVar("Client", bound=ProtobufClient)


class Headers:
    """An interceptor that adds headers to every request of a client, and passes every response to
    `seen`. Requests for messages wait until there are some (`doors.Bell`): of `node`, for `wait`
    seconds."""

    def __init__(
        self,
        component: str,
        headers: Callable[[str], Mapping[str, str]],
        seen: Callable[[httpx.Response], None] = lambda response: None,
    ) -> None:
        self._versions = dict(RuntimeVersionMetadata.from_local_component(component).as_metadata())
        self._headers, self._seen = headers, seen
        self.node: int | None = None
        self.wait = 0.0
        self._rings = "0"  # the bell's count at the last response

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> Any:
        path = context.request.url.path
        context.request.headers.update({**self._versions, **self._headers(path)})
        if path.endswith("/pull-messages"):
            waits = {NODE: str(self.node), RINGS: self._rings, WAIT: str(round(1000 * self.wait))}
            context.request.headers.update(waits)
        response = call_next(context)
        self._rings = response.headers.get(RINGS, self._rings)
        self._seen(response)
        return response


def client(
    kind: type[Client], url: str, headers: Headers, tls: ssl.SSLContext | None = None
) -> Client:
    """A client of the SuperLink's HTTP API that neither retries nor sends signals by itself."""
    made = kind(url, interceptors=[headers], verify=False)
    made._client.close()
    host = httpx.URL(url).host
    made._client = httpx.Client(
        verify=tls if tls is not None else False,
        timeout=httpx.Timeout(35.0, connect=10.0),
        trust_env=host not in ("127.0.0.1", "localhost", "::1"),  # proxies
    )
    return made


def hurry(client: ProtobufClient, seconds: float) -> None:
    """Let the next requests of a client take at most so many seconds."""
    client._client.timeout = httpx.Timeout(seconds)


def error_code(error: httpx.HTTPStatusError) -> tuple[int | None, str]:
    """Flower's code in an error response, if there is one, and the text."""
    told = FlowerError.from_json(error.response.text)
    if told is not None:
        return told.code, told.message
    return None, error.response.text[:300]


def nothing_to_run() -> bytes:
    """The smallest app that a SuperLink accepts: it names modules that do not exist."""
    text = (
        '[project]\nname = "foltr-session"\nversion = "1.0.0"\ndescription = ""\n'
        'license = "Apache-2.0"\n[tool.flwr.app]\npublisher = "foltr"\n'
        '[tool.flwr.app.components]\nserverapp = "nothing:app"\nclientapp = "nothing:app"\n'
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        # a fixed date: the same bytes, so the same app, every time
        archive.writestr(zipfile.ZipInfo("pyproject.toml", (2026, 1, 1, 0, 0, 0)), text)
    return buffer.getvalue()


# --- Messages that carry their content themselves ---
#
# Flower splits a message into objects. Each object takes one request to send and one to fetch.
# Flower's protocol also has a field for the content inside the message. A message that uses this
# field takes one request, and arrives whole or not at all. Sessions and nodes send no others.


def as_proto(message: Message) -> tuple[Any, Any]:
    """A message as it is sent, and its object tree, which is the message alone."""
    message.metadata.__dict__["_message_id"] = message.object_id
    return message_to_proto(message), message_pb2.ObjectTree(object_id=message.object_id)


def from_proto(proto: Any) -> Message:
    return message_from_proto(proto)


BATCH = 4_000_000  # bytes of messages in one request


def batches(pairs: list[tuple[Any, Any]]) -> Iterator[list[tuple[Any, Any]]]:
    """Split messages into requests of at most BATCH bytes, each with at least one message."""
    batch: list[tuple[Any, Any]] = []
    size = 0
    for proto, tree in pairs:
        more = proto.ByteSize()
        if batch and size + more > BATCH:
            yield batch
            batch, size = [], 0
        batch.append((proto, tree))
        size += more
    if batch:
        yield batch


# --- The SuperLink: only its process needs the imports below ---


def superlink_app(database: str | None, node_keys: bool, bell: Bell, homes: Homes) -> Any:
    """The SuperLink's application. It starts no process, installs nothing, contacts no host."""
    from flwr.common.constant import TRANSPORT_TYPE_GRPC_RERE
    from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME
    from flwr.superlink.auth_plugin import NoOpControlAuthnPlugin
    from flwr.superlink.cli.flower_superlink import SuperLinkLifespan
    from flwr.superlink.config_loader import SuperLinkLifespanConfig
    from flwr.superlink.main import create_app

    config = SuperLinkLifespanConfig(
        control_address="",
        health_server_address=None,
        host="127.0.0.1",
        port=0,
        insecure=True,  # the doors do TLS
        certificates=None,
        superexec_auth_secret=None,  # the private door has its own secret
        authn_plugin=NoOpControlAuthnPlugin(),
        event_log_plugin=None,
        fleet_event_log_plugin=None,
        enable_event_log=False,
        artifact_provider=None,
        enable_supernode_auth=node_keys,
        fleet_api_type=TRANSPORT_TYPE_GRPC_RERE,
        fleet_api_address=None,
        simulation=False,
        ssl_ca_certfile=None,
        ssl_certfile=None,
        ssl_keyfile=None,
        database=database or FLWR_IN_MEMORY_DB_NAME,
        isolation="process",
        runtime_dependency_install=False,
    )
    erase_what_is_deleted()
    find_migrations_in_any_folder()
    app = create_app(config, SuperLinkLifespan)
    carry_whole(app.state.linkstate_factory.state(), bell)
    know_the_nodes(bell, homes)
    return app


def sender_of(app: Any) -> Sender:
    """A function that returns the registered node that sent a request, or None. It checks only the
    headers (the node's key, and the signed time) with Flower's code, before the body is read."""
    from fastapi import HTTPException
    from flwr.superlink.routers.fleet.node_auth import authenticate_node

    state = app.state.linkstate_factory.state()

    def sender(headers: Mapping[str, bytes]) -> int | None:
        texts = {name: value.decode("latin-1") for name, value in headers.items()}
        try:
            key = b64decode(texts[FLEET_HTTP_PUBLIC_KEY_HEADER], validate=True)
            said = fleet_pb2.ActivateNodeRequest(public_key=key)
            authenticate_node(
                SimpleNamespace(headers=texts, state=SimpleNamespace(protobuf_request=said))
            )
        except (KeyError, ValueError, HTTPException):
            return None
        node: int | None = state.get_node_id_by_public_key(key)
        return node

    return sender


def find_migrations_in_any_folder() -> None:
    """Flower separates the folders of its migrations by spaces, so that an installation below a
    folder with a space in its name would have a database without tables."""
    from flwr.supercore.state.alembic import utils

    flowers_config = utils.build_alembic_config

    def build_alembic_config(engine: Any) -> Any:
        config = flowers_config(engine)
        folders = [utils.ALEMBIC_DIR / "versions", *utils._version_locations]
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", "\n".join(map(str, folders)))
        return config

    utils.build_alembic_config = build_alembic_config


def erase_what_is_deleted() -> None:
    """Make SQLite overwrite deleted rows. Asks contain the model of their round, which must not
    remain on disk after a node was unlearned."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    @event.listens_for(Engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.execute("pragma secure_delete = on")


def carry_whole(state: Any, bell: Bell) -> None:
    """Patch the SuperLink's state. Only messages that carry their content are stored: they leave
    no objects and no push sessions behind. The bell rings for each stored message and each node
    that is unregistered."""
    from flwr.supercore.object_store import NoObjectInStoreError

    delete_node = state.delete_node
    find_tree = state.object_store.get_object_tree

    def store(message: Message, tree: Any, session_id: str) -> tuple[bool, list[str]]:
        stored = False
        if message.has_error() or len(message.content) > 0:
            reply = bool(message.metadata.reply_to_message_id)
            put = state.store_message_res if reply else state.store_message_ins
            stored = put(message) is not None
        state._cleanup_push_session(session_id, cleanup_messages=False)
        if stored:
            bell.ring(message.metadata.dst_node_id)
        return stored, []

    def tree_of(object_id: str) -> Any:
        try:
            return find_tree(object_id)
        except NoObjectInStoreError:
            return message_pb2.ObjectTree(object_id=object_id)

    def shut_out(owner_aid: str, node_id: int) -> None:
        delete_node(owner_aid, node_id)
        bell.ring(node_id)

    state.delete_node = shut_out
    state.store_message_and_object_tree = store
    state.object_store.get_object_tree = tree_of


def ask_again(state: Any, node: int) -> None:
    """Deliver the asks again that a node fetched and did not answer."""
    if (asks := getattr(state, "message_ins_store", None)) is not None:  # in memory
        for id, ask in list(asks.items()):
            if ask.metadata.dst_node_id == node:
                if id not in state.message_ins_id_to_message_res_id:
                    ask.metadata.delivered_at = ""
        return
    from flwr.supercore.state.schema.linkstate_models import MessageIns, MessageRes
    from flwr.supercore.utils import uint64_to_int64
    from sqlalchemy import select, update

    answered = select(MessageRes.reply_to_message_id)
    own = MessageIns.dst_node_id == uint64_to_int64(node)
    open_asks = update(MessageIns).where(own, MessageIns.message_id.not_in(answered))
    with state.session() as session:
        session.execute(open_asks.values(delivered_at=""))


def know_the_nodes(bell: Bell, homes: Homes) -> None:
    """Patch Flower's handlers for nodes, which check each node's key. A node learns why it is
    refused, can reconnect at once after it was killed, and cannot answer for another node."""
    from fastapi import HTTPException
    from flwr.superlink.servicer.fleet import fleet_handlers

    activate, deactivate = fleet_handlers.activate_node, fleet_handlers.deactivate_node
    pull, push = fleet_handlers.pull_messages, fleet_handlers.push_messages

    def activate_node(request: Any, state: Any) -> Any:
        node = state.get_node_id_by_public_key(request.public_key)
        if node is None:
            raise HTTPException(403, "unregistered")
        word = shown.get()
        bell.know(node)
        try:
            answer = activate(request, state)
        except FlowerError as error:
            if error.code != ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED:
                raise
            back = homes.is_home(node, word) and not bell.waits(node)
            if not back and not bell.gone(node):
                raise HTTPException(409, "in use") from error
            state.acknowledge_node_heartbeat(node, request.heartbeat_interval)
            answer = fleet_pb2.ActivateNodeResponse(node_id=node)
        homes.know(node, word)
        return answer

    def deactivate_node(request: Any, state: Any) -> Any:
        result = deactivate(request, state)
        bell.ring(request.node_id)  # ends its waiting request
        return result

    def pull_messages(request: Any, state: Any, store: Any) -> Any:
        if again.get():
            ask_again(state, request.node.node_id)
        return pull(request, state, store)

    def push_messages(request: Any, state: Any) -> Any:
        if any(m.metadata.src_node_id != request.node.node_id for m in request.messages_list):
            raise HTTPException(403, "an answer in another node's name")
        return push(request, state)

    fleet_handlers.activate_node = activate_node
    fleet_handlers.deactivate_node = deactivate_node
    fleet_handlers.pull_messages = pull_messages
    fleet_handlers.push_messages = push_messages
