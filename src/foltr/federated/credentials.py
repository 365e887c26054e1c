"""Public keys of nodes in Flower's format, and the certificates that nodes trust."""

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
    """A TLS context that trusts only the certificates in the file `roots`; None trusts those of
    the operating system."""
    if roots is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=Path(roots).read_text())
    except (ssl.SSLError, ValueError) as error:
        raise Mistake(
            f"{roots}: no certificates (PEM) in it: copy ca.pem from the server's keys"
        ) from error
    except OSError as error:
        raise Mistake(
            f"cannot read {roots}: {error.strerror}: copy ca.pem from the server's keys"
        ) from error
    return context


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def public_pem(public_key: bytes) -> bytes:
    """Convert a node's public key, an OpenSSH line or PEM, to the PEM that the SuperLink keeps."""
    try:
        if public_key.lstrip().startswith(b"-----"):
            key: Any = serialization.load_pem_public_key(public_key)
        else:
            key = serialization.load_ssh_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Mistake(
            f"this is no public key of a node ({error}): `foltr keys node NAME` makes one"
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Mistake(
            f"a node's key must be an ECDSA key (P-384), got {type(key).__name__}:"
            " `foltr keys node NAME` makes one"
        )
    return public_bytes(key)


def public_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    """A public key as PEM, the form in which Flower compares keys."""
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(serialization.Encoding.PEM, kind)
