"""Public keys of nodes in Flower's form, and the certificates that nodes trust."""

import ssl
from pathlib import Path
from typing import Any

from foltr.errors import Mistake
from foltr.federated import INSTALL

try:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError as error:
    raise Mistake(f"cryptography is not installed ({error}): {INSTALL}") from error


def trusting(roots: Path | None) -> ssl.SSLContext:
    """TLS that trusts who signed the server's certificate."""
    if roots is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=Path(roots).read_text())
    except (ssl.SSLError, ValueError) as error:
        raise Mistake(f"{roots}: no certificates (PEM) in it") from error
    except OSError as error:
        raise Mistake(f"{roots}: {error.strerror}") from error
    return context


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def public_pem(public_key: bytes) -> bytes:
    """A node's public key as the SuperLink keeps it; given as OpenSSH line or PEM."""
    try:
        if public_key.lstrip().startswith(b"-----"):
            key: Any = serialization.load_pem_public_key(public_key)
        else:
            key = serialization.load_ssh_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Mistake(f"no public key of a node: {error}; `foltr keys` makes them") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Mistake("the key of a node is an ECDSA key (P-384); `foltr keys` makes them")
    return public_bytes(key)


def public_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    """A public key as Flower compares it: PEM."""
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, kind)
