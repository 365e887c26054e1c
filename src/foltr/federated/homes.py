"""Where nodes live: a process that was killed comes back at once, and a copied key does not pass
for it.

A node shows a word from its state folder, which one process at a time uses. Whoever shows the word
that was shown before is the same node, started again."""

import hmac
import json
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path

HEADER = "x-foltr-home"
AGAIN = "x-foltr-again"  # of a node whose connection broke: what it fetched may not have arrived
LONGEST = 200  # bytes of a word
# in the request that is served
shown: ContextVar[bytes] = ContextVar("shown", default=b"")
again: ContextVar[bool] = ContextVar("again", default=False)


class Homes:
    """The hash of each node's last word, in a file: the SuperLink may be started again as well."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._known: dict[str, str] = dict(json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            self._known = {}

    def is_home(self, node: int, word: bytes) -> bool:
        known = self._known.get(str(node))
        return bool(word and known) and hmac.compare_digest(str(known), _hash(word))

    def know(self, node: int, word: bytes) -> None:
        """A node that is active now."""
        if word and len(word) <= LONGEST and not self.is_home(node, word):
            self._known[str(node)] = _hash(word)
            part = self._file.with_suffix(".part")
            try:
                part.write_text(json.dumps(self._known))
                part.replace(self._file)
            except OSError:
                pass  # a full disk: this node waits longer if all are started again


def _hash(word: bytes) -> str:
    return sha256(word).hexdigest()
