"""Keys, signatures, sealed shares and masks, over the `cryptography` package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from foltr.core import Array
from foltr.core.errors import require
from foltr.secure_sum.messages import Refused
from foltr.secure_sum.terms import Terms

PUBLIC, SIGNATURE, TAG = 32, 64, 16  # bytes
FIRST = bytes(16)  # ChaCha20's counter and nonce; every key is used for one stream


@dataclass(frozen=True)
class KeyPair:
    """An X25519 key pair."""

    private: X25519PrivateKey
    public: bytes

    @classmethod
    def fresh(cls) -> Self:
        private = X25519PrivateKey.generate()
        return cls(private, private.public_key().public_bytes_raw())

    @classmethod
    def of(cls, secret: bytes) -> Self:
        private = X25519PrivateKey.from_private_bytes(secret)
        return cls(private, private.public_key().public_bytes_raw())

    def agree(self, public: bytes, use: bytes) -> bytes:
        """32 bytes for one use that only the owners of the two keys can compute."""
        try:
            shared = self.private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:  # a point of low order gives zero for every private key
            raise Refused("a public key that agrees on nothing secret") from None
        return HKDF(SHA256(), 32, None, use).derive(shared)


def mask_use(terms: Terms, one: int, other: int) -> bytes:
    return b"foltr secure sum: mask" + terms.fingerprint + _pair(min(one, other), max(one, other))


def seal_use(terms: Terms, cards: dict[int, bytes]) -> bytes:
    """The use of a sealing key. It contains both clients' public keys, so nothing can be unsealed
    if one was replaced on its way."""
    return (
        b"foltr secure sum: seal"
        + terms.fingerprint
        + b"".join(cards[client] for client in sorted(cards))
    )


def _pair(one: int, other: int) -> bytes:
    return one.to_bytes(4, "little") + other.to_bytes(4, "little")


def seal(key: bytes, terms: Terms, sender: int, receiver: int, text: bytes) -> bytes:
    """Encrypt and authenticate. Two clients share one key; each direction has its own nonce, used
    once."""
    way = _pair(sender, receiver)
    return ChaCha20Poly1305(key).encrypt(way + bytes(4), text, terms.fingerprint + way)


def unseal(key: bytes, terms: Terms, sender: int, receiver: int, sealed: bytes) -> bytes:
    way = _pair(sender, receiver)
    try:
        return ChaCha20Poly1305(key).decrypt(way + bytes(4), sealed, terms.fingerprint + way)
    except InvalidTag:
        raise Refused(
            f"the shares from client {sender} to client {receiver} were tampered with"
        ) from None


def stream(key: bytes, words: int) -> Array:
    """The first words of ChaCha20's key stream: a mask."""  # (words,) uint64
    return np.frombuffer(
        Cipher(ChaCha20(key, FIRST), None).encryptor().update(bytes(8 * words)), "<u8"
    )


def commitment(terms: Terms, owner: int, seed: bytes) -> bytes:
    """The published commitment to a seed, by which a wrong reconstruction is noticed."""
    return blake2b(
        terms.fingerprint + _pair(owner, owner) + seed, digest_size=32, person=b"foltr seed"
    ).digest()


def digest(terms: Terms, owner: int, holder: int, secret: bytes, share: bytes) -> bytes:
    """The published hash of a share, by which a wrong share is noticed before it spoils the
    sum."""
    text = terms.fingerprint + _pair(owner, holder) + secret + share
    return blake2b(text, digest_size=16, person=b"foltr share").digest()


def node_key() -> tuple[bytes, bytes]:
    """A new Ed25519 key of a node: private and public."""
    private = Ed25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def sign(private: bytes, text: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(private).sign(text)


def node_keys(known: Mapping[int, bytes] | None) -> dict[int, tuple[Ed25519PublicKey, ...]]:
    """The public node keys with which a party checks signatures. A node whose key is being
    replaced has two, one after the other."""
    for client, public in (known or {}).items():
        require(
            bool(public) and len(public) % PUBLIC == 0,
            f"the public node key of client {client} has {len(public)} bytes, expected 32",
        )
    return {
        client: tuple(
            Ed25519PublicKey.from_public_bytes(public[at : at + PUBLIC])
            for at in range(0, len(public), PUBLIC)
        )
        for client, public in (known or {}).items()
    }


def signed_by(keys: tuple[Ed25519PublicKey, ...], signature: bytes, text: bytes) -> bool:
    """Whether the signature is of one of these keys."""
    return any(_verifies(public, signature, text) for public in keys)


def _verifies(public: Ed25519PublicKey, signature: bytes, text: bytes) -> bool:
    try:
        public.verify(signature, text)
    except InvalidSignature:
        return False
    return True


def keys_text(terms: Terms, client: int, keys: bytes) -> bytes:
    """The text that a node signs so that nobody can replace its keys."""
    return b"foltr secure sum: keys" + terms.fingerprint + client.to_bytes(4, "little") + keys


def survivors_text(terms: Terms, survivors: bytes) -> bytes:
    """The text that a node signs so that all clients unmask the same sum."""
    return b"foltr secure sum: survivors" + terms.fingerprint + survivors
