"""The server's connection to the SuperLink, by the private door."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from flwr.app import Message

from foltr.core.errors import Mistake
from foltr.deployment.flower import doors
from foltr.deployment.flower import internals as flower
from foltr.deployment.flower.internals import control_pb2, httpx, message_pb2, runtime_pb2
from foltr.deployment.flower.superlink import is_full
from foltr.deployment.keys.keys import flower_key
from foltr.deployment.keys.roster import Peer
from foltr.deployment.protocol.messages import TYPE, LinkDown, NewSession, packed

Answer = TypeVar("Answer")
HEARTBEAT = 15.0  # seconds; the SuperLink ends a run that is silent for 60 seconds
FAREWELL = 3.0  # seconds in which the SuperLink must respond when the session is closed
LATE = 1.0  # seconds after it expires until an unanswered ask is deleted
LOST = (401, 403)  # HTTP statuses that mean that the run has ended


class Session:
    """A run on a SuperLink, which is kept alive. A process has one session, and only one thread
    uses it.

    url, secret: address and secret of the private door.
    folder: where the run's id is stored. If the process is killed, the next session ends its run.
    patience: seconds for which requests are repeated while the SuperLink does not respond.
    tell: prints a line for the user.
    stopping: whether the process is to stop; requests are then not repeated any more.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        folder: Path,
        *,
        patience: float = 60.0,
        tell: Callable[[str], None] = lambda text: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.patience, self._tell, self._stopping = patience, tell, stopping
        self.failing: float | None = None  # since when the SuperLink has not responded
        self._file = Path(folder) / "session.json"
        self._secret, self._token = secret, ""
        self._asked: dict[str, float] = {}  # unanswered messages: id -> when it is deleted
        self._keys: dict[bytes, None] = {}  # node keys that this session registered
        self._ended = threading.Event()
        self._lost = False
        self._polling = flower.Headers("flwr-serverapp", self._tokens)
        self._polling.node = flower.SUPERLINK_NODE_ID
        plain = flower.Headers("flwr-cli", lambda path: {doors.SECRET: secret})
        self._control = flower.client(flower.ControlHttpClient, url, plain)
        self._runtime = flower.client(flower.RuntimeHttpClient, url, self._polling)
        calm = flower.Headers("flwr-serverapp", self._tokens)
        self._heart = flower.client(flower.RuntimeHttpClient, url, calm)
        self._open()
        threading.Thread(target=self._beat, name="foltr-session", daemon=True).start()

    # --- nodes ---

    def get_nodes(self) -> list[Peer]:
        """The connected nodes."""
        nodes = self._of_run(lambda: self._runtime.GetNodes(runtime_pb2.GetNodesRequest())).nodes
        return [Peer(node.node_id, node.public_key) for node in nodes]

    def registered(self) -> list[Peer]:
        """All registered nodes, connected or not."""
        found = self._call(lambda: self._control.ListNodes(control_pb2.ListNodesRequest()))
        return [
            Peer(node.node_id, node.public_key)
            for node in found.nodes_info
            if node.status != "unregistered"
        ]

    def register(self, public_key: bytes) -> None:
        """Register a node by its public key. Registering it again is allowed."""
        key = flower_key(public_key)
        self._keys[key] = None
        request = control_pb2.RegisterNodeRequest(public_key=key)
        try:
            self._call(lambda: self._control.RegisterNode(request))
        except httpx.HTTPStatusError as error:
            code, text = flower.error_code(error)
            if code != flower.ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
                raise Mistake(f"the SuperLink refuses this node key: {text}") from error

    def unregister(self, public_keys: Iterable[bytes]) -> list[bytes]:
        """Unregister nodes by their public keys. Returns the keys that were registered."""
        keys = {flower_key(key): key for key in public_keys}
        for key in keys:
            self._keys.pop(key, None)
        found = [peer for peer in self.registered() if peer.public_key in keys] if keys else []
        for peer in found:
            request = control_pb2.UnregisterNodeRequest(node_id=peer.node_id)
            self._call(lambda: self._control.UnregisterNode(request))  # noqa: B023
        return [keys[peer.public_key] for peer in found]

    # --- messages ---

    def message(self, frame: bytes, node_id: int, ttl: float) -> Message:
        """An ask to a node, with a time to live of `ttl` seconds."""
        return Message(packed(frame), node_id, TYPE, ttl=ttl)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Send messages. Returns their ids: '' for a message to an unknown node."""
        messages = list(messages)
        if not messages:
            return []
        self._clear()
        for message in messages:  # they may have been made for the previous run
            message.metadata.__dict__["_run_id"] = self._run_id
        pairs = [flower.as_proto(message) for message in messages]
        ids = [key for batch in flower.batches(pairs) for key in self._push(batch)]
        for message, key in zip(messages, ids, strict=True):
            if key:
                ends = message.metadata.created_at + message.metadata.ttl
                self._asked[key] = ends + LATE
        return ids

    def _push(self, pairs: list[tuple[Any, Any]]) -> list[str]:
        """Send some of the messages in one request."""
        request = runtime_pb2.PushAppMessagesRequest(
            messages_list=[proto for proto, _ in pairs],
            message_object_trees=[tree for _, tree in pairs],
        )
        try:
            answer = self._of_run(lambda: self._runtime.PushMessages(request))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != 413:
                raise
            raise Mistake(
                f"an ask of {request.ByteSize()} bytes is larger than the SuperLink accepts:"
                " raise max_bytes in [server]"
            ) from error
        return list(answer.message_ids)

    def pull_messages(self, message_ids: Iterable[str], wait: float = 0.0) -> list[Message]:
        """The answers that have arrived. With `wait`, this waits for the first answer for up to
        that many seconds, at most 25."""
        ids = [key for key in message_ids if key]
        self._polling.wait = wait
        try:
            request = runtime_pb2.PullAppMessagesRequest(message_ids=ids)
            answer = self._of_run(lambda: self._runtime.PullMessages(request))
        finally:
            self._polling.wait = 0.0
        found = []
        for proto in answer.messages_list:
            self._asked.pop(proto.metadata.reply_to_message_id, None)
            found.append(flower.from_proto(proto))
            if proto.metadata.src_node_id == flower.SUPERLINK_NODE_ID:
                self._confirm(proto.metadata.message_id)
        return found

    @property
    def run(self) -> Any:
        return flower.Run.create_empty(self._run_id)

    def close(self) -> None:
        """End the run."""
        if not self._ended.is_set():
            self._ended.set()
            flower.hurry(self._control, FAREWELL)
            self._stop_run(self._run_id)
            self._file.unlink(missing_ok=True)
            for part in (self._control, self._runtime, self._heart):
                part.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the run ---

    def _open(self) -> None:
        """End the run of the previous session, and open a new one."""
        if self._file.exists():
            try:
                self._stop_run(int(json.loads(self._file.read_text())["run"]))
            except (ValueError, KeyError, TypeError):
                pass
        fab = flower.fab_pb2.Fab(content=flower.nothing_to_run())
        request = control_pb2.StartRunRequest(fab=fab)
        self._run_id = self._call(lambda: self._control.StartRun(request)).run_id
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({"run": self._run_id}))
        for _ in range(20):
            self._token = ""
            wanted = runtime_pb2.AcquireTaskRequest(
                supported_task_types=[flower.TaskType.SERVER_APP]
            )
            given = self._call(lambda: self._runtime.AcquireTask(wanted))  # noqa: B023
            if given.token and given.task.run_id == self._run_id:
                break
            if not given.token:
                raise Mistake(
                    "another program took this server's run: use the SuperLink for foltr only"
                )
            self._stop_run(given.task.run_id)  # left over from a session that was killed
        else:
            raise Mistake("the SuperLink has runs of other programs: use it for foltr only")
        self._token = given.token
        self._call(lambda: self._runtime.PullTaskInput(runtime_pb2.PullTaskInputRequest()))
        flower.TaskIdentity.run_id = self._run_id
        flower.TaskIdentity.task_id = given.task.task_id
        flower.TaskIdentity.node_id = flower.SUPERLINK_NODE_ID
        self._asked.clear()
        self._lost = False

    def start_anew(self) -> None:
        """End the run, with all its messages, and open another."""
        self._open()

    def _stop_run(self, run_id: int) -> None:
        """End a run, if it is still active. The SuperLink then deletes its messages."""
        try:
            self._control.StopRun(control_pb2.StopRunRequest(run_id=run_id))
        except httpx.HTTPError:
            pass

    def _beat(self) -> None:
        """Send heartbeats that keep the run alive."""
        request = runtime_pb2.SendTaskHeartbeatRequest()
        while not self._ended.wait(HEARTBEAT):
            token = self._token
            try:
                alive = self._heart.SendTaskHeartbeat(request).success
            except httpx.HTTPStatusError as error:
                alive = error.response.status_code not in LOST
            except (httpx.HTTPError, RuntimeError):  # closed
                continue
            if not alive and token == self._token:
                self._lost = True

    def _of_run(self, call: Callable[[], Answer]) -> Answer:
        """Make a call that needs the run. If the run is lost, open a new one and raise
        NewSession."""
        try:
            if not self._lost:
                return self._call(call)
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in LOST:
                raise
        self._tell("the SuperLink no longer knows this run: opening a new one")
        self._open()
        for key in self._keys:  # a SuperLink without a database forgets them when it restarts
            self.register(key)
        raise NewSession("the run was lost, and a new one is open: push the messages again")

    def _call(self, call: Callable[[], Answer]) -> Answer:
        """Make a call, repeatedly while the SuperLink does not respond."""
        until, pause = time.monotonic() + self.patience, 0.1
        while True:
            try:
                result = call()
                self.failing = None
                return result
            except httpx.TransportError as error:
                failed: Exception = error
            except httpx.HTTPStatusError as error:
                if doors.LOCKED in error.response.text:
                    raise Mistake(
                        "the SuperLink's private door has another secret: use the folder of the"
                        " SuperLink that is running (`superlink` in [server])"
                    ) from error
                if error.response.status_code < 500:
                    self.failing = None
                    raise
                failed = error
                if pause == 0.1:  # once
                    self._tell(self._why_it_fails(error.response.status_code))
            self.failing = self.failing or time.monotonic()
            over = self._ended.is_set() or self._stopping()
            if over or time.monotonic() + pause > until:
                waited = time.monotonic() - self.failing
                raise LinkDown(
                    f"the SuperLink did not answer for {waited:.0f} s ({failed}): see its log"
                ) from failed
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _why_it_fails(self, status: int) -> str:
        """A message about a SuperLink that runs but responds with an error."""
        folder = self._file.parent
        if is_full(folder):
            return f"No space left on the disk of {folder}: free some space; trying again"
        return f"the SuperLink responded with HTTP status {status}: trying again; see its log"

    def _clear(self) -> None:
        """Make the SuperLink delete asks that expired without an answer."""
        late = [key for key, ends in self._asked.items() if ends < time.time()]
        if late:
            self.pull_messages(late)
            for key in late:
                self._asked.pop(key, None)

    def _confirm(self, message_id: str) -> None:
        request = message_pb2.ConfirmMessageReceivedRequest(
            node=flower.node_pb2.Node(node_id=flower.SUPERLINK_NODE_ID),
            run_id=self._run_id,
            message_object_id=message_id,
        )
        self._of_run(lambda: self._runtime.ConfirmMessageReceived(request))

    def _tokens(self, path: str) -> dict[str, str]:
        token = {flower.TASK_TOKEN_HEADER: self._token} if self._token else {}
        return {doors.SECRET: self._secret, **token}
