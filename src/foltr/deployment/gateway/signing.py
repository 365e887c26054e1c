"""What devices sign, and the tokens with which they fetch asks.

A device has an Ed25519 key: its identity. It signs every answer, and every request that changes
something. Fetching asks needs only a token, which is cheaper to check: the gateway issues it for a
signed request, and can check it without storing it."""

from __future__ import annotations

import hmac
import struct
from base64 import b64decode, b64encode
from dataclasses import dataclass
from hashlib import sha256

from foltr.core.errors import Mistake

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
except ImportError as error:
    raise Mistake(f"a gateway needs cryptography: pip install 'foltr[deploy]' ({error})") from None

PUBLIC, SIGNATURE = 32, 64  # bytes
SKEW = 300.0  # seconds by which a device's clock may differ from the gateway's
TOKEN_SECONDS = 86_400.0
CLIENT, TIME, SIGNED = "foltr-client", "foltr-time", "foltr-signature"  # headers
SPOKEN = "foltr-version"  # header: the version of the protocol that a device speaks
WAIT = "foltr-wait"  # header: seconds for which a device wants its request to be held
AUTHORIZATION = "Foltr "  # before the token
# paths of the protocol
ENROL, SESSION, LEAVE, FORGET, KEY = (
    f"/v1/{name}" for name in ("enrol", "session", "leave", "forget", "key")
)
ASK, MODEL, ANSWERS, ABOUT = (f"/v1/{name}" for name in ("ask", "model", "answers/", "about"))
_TOKEN = struct.Struct("<IQ")
_MAC = 16  # bytes


def request_text(federation: bytes, client: int, path: str, time: int, body: bytes) -> bytes:
    """What a device signs to make a request: it cannot be used for another federation, client,
    path, time (in milliseconds) or body."""
    head = struct.pack("<16sIQ", federation, client, time)
    return b"foltr request 1" + head + sha256(body).digest() + path.encode()


def answer_text(frame: bytes) -> bytes:
    """What a device signs to answer an ask. The frame names the federation, the round, the ask
    (by its nonce) and the client."""
    return b"foltr answer 1" + frame


def key_text(federation: bytes, key: bytes) -> bytes:
    """What a new key signs, to show that its owner has the private key."""
    return b"foltr key 1" + federation + key


def signed_headers(
    key: Ed25519PrivateKey, federation: bytes, client: int, path: str, time: int, body: bytes
) -> dict[str, str]:
    """The headers of a signed request."""
    text = request_text(federation, client, path, time, body)
    return {CLIENT: str(client), TIME: str(time), SIGNED: b64encode(key.sign(text)).decode()}


def verified(key: Ed25519PublicKey, signature: bytes, text: bytes) -> bool:
    try:
        key.verify(signature, text)
    except InvalidSignature:
        return False
    return True


def public_key(raw: bytes) -> Ed25519PublicKey:
    """A public key of 32 bytes. Raises ValueError for bytes that are none."""
    if len(raw) != PUBLIC:
        raise ValueError(f"a public key has {PUBLIC} bytes, got {len(raw)}")
    return Ed25519PublicKey.from_public_bytes(raw)


def decoded(text: object, length: int) -> bytes:
    """Bytes in base64, of a given length. Raises ValueError."""
    if not isinstance(text, str | bytes) or len(text) > 2 * length + 4:
        raise ValueError("expected base64")
    found = b64decode(text, validate=True)
    if len(found) != length:
        raise ValueError(f"expected {length} bytes in base64, got {len(found)}")
    return found


@dataclass(frozen=True)
class Tokens:
    """Makes and checks tokens. `secret` stays on the gateway."""

    secret: bytes

    def token(self, client: int, now: float) -> str:
        head = _TOKEN.pack(client, int(now + TOKEN_SECONDS))
        return (head + self._mac(head)).hex()

    def client(self, token: bytes, now: float) -> int | None:
        """The client to which a token belongs; None if it is false or has expired."""
        if len(token) != 2 * (_TOKEN.size + _MAC):
            return None
        try:
            raw = bytes.fromhex(token.decode("ascii"))
        except ValueError:
            return None
        head = raw[: _TOKEN.size]
        if not hmac.compare_digest(raw[_TOKEN.size :], self._mac(head)):
            return None
        client, until = _TOKEN.unpack(head)
        return client if now <= until else None

    def _mac(self, head: bytes) -> bytes:
        return hmac.digest(self.secret, b"foltr token 1" + head, "sha256")[:_MAC]
