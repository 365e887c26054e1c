"""How the SuperLink recognises a node that was killed and started again.

A node's state folder, its home, contains a random token. Only one process at a time uses the
folder. A node sends the token when it connects. If it is the token of the last connection, it is
the same node, restarted, and may connect at once. A process with a copied key has another token,
and must wait until the node is gone."""

import hmac
import json
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path

HEADER = "x-foltr-home"
AGAIN = "x-foltr-again"  # sent after a lost connection: the last asks may not have arrived
LONGEST = 200  # bytes of a token
# the two headers of the current request
shown: ContextVar[bytes] = ContextVar("shown", default=b"")
again: ContextVar[bool] = ContextVar("again", default=False)


class Homes:
    """The hash of each node's last token. It is kept in a file, because the SuperLink may be
    restarted, too."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._known: dict[str, str] = dict(json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            self._known = {}

    def is_home(self, node: int, word: bytes) -> bool:
        """Whether `word` is the token of the node's last connection."""
        known = self._known.get(str(node))
        return bool(word and known) and hmac.compare_digest(str(known), _hash(word))

    def know(self, node: int, word: bytes) -> None:
        """Store the token of a node that is active now."""
        if word and len(word) <= LONGEST and not self.is_home(node, word):
            self._known[str(node)] = _hash(word)
            part = self._file.with_suffix(".part")
            try:
                part.write_text(json.dumps(self._known))
                part.replace(self._file)
            except OSError:
                pass  # disk full: after a restart of everything, this node waits longer


def _hash(word: bytes) -> str:
    return sha256(word).hexdigest()
