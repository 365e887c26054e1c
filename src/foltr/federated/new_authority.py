"""Move a federation to a new certificate authority while all nodes stay connected.

1. `begin` makes the new authority. `ca.pem` then has both, the current one first. It is sent to
   every node.
2. `switch` signs the server's certificate by the new authority. Nodes with the new `ca.pem` accept
   it; others cannot connect any more.
3. `finish` removes the earlier authority from `ca.pem`, which is sent to every node again.

Each step can be repeated if it was interrupted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from foltr.errors import Mistake, require
from foltr.federated.authority import CA_DAYS, authority_certificate, server_certificate
from foltr.federated.keys import (
    SERVER_DAYS,
    ServerFiles,
    certificate_pem,
    hosts_of,
    issued_by,
    key_pem,
    read_certificate,
    read_certificates,
    read_key,
)
from foltr.system.files import write_whole
from foltr.system.private import replace_private

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError as error:
    raise Mistake(
        f"keys need the package cryptography: pip install 'foltr[deploy]' ({error})"
    ) from None

NEXT_KEY = "ca.next.key"  # private key of the new authority, until the server has switched
COMMAND = "foltr keys authority"


def begin(folder: Path, now: datetime | None = None) -> x509.Certificate:
    """Make a new authority beside the current one. Returns its certificate."""
    files, now = ServerFiles(folder), now or datetime.now(UTC)
    known = read_certificates(files.ca)
    if len(known) > 1:
        step = "--switch" if (folder / NEXT_KEY).exists() else "--finish"
        raise Mistake(f"{files.ca} has {len(known)} authorities already: {COMMAND} {step}")
    key = ec.generate_private_key(ec.SECP256R1())
    made = authority_certificate(key, now)
    replace_private(folder / NEXT_KEY, key_pem(key))
    write_authorities(files.ca, [*known, made])
    return made


def switch(folder: Path, days: int = SERVER_DAYS, now: datetime | None = None) -> x509.Certificate:
    """Sign the server's certificate by the new authority, for the same hosts and key. Returns it.
    The private key of the earlier authority is overwritten."""
    files, now = ServerFiles(folder), now or datetime.now(UTC)
    known = read_certificates(files.ca)
    require((folder / NEXT_KEY).exists(), f"no new authority was made: {COMMAND} --begin")
    require(1 <= days <= CA_DAYS, f"days = {days}: expected 1 to {CA_DAYS}")
    key = read_key(folder / NEXT_KEY)
    new = next((each for each in known if each.public_key() == key.public_key()), None)
    if new is None:
        raise Mistake(
            f"{folder / NEXT_KEY} belongs to no authority in {files.ca}: delete it, then"
            f" {COMMAND} --begin"
        )
    hosts = hosts_of(read_certificate(files.certificate))
    public = read_key(files.key).public_key()
    certificate = server_certificate(public, hosts, new, key, now, days)
    write_whole(files.certificate, certificate_pem(certificate))
    write_authorities(files.ca, [new, *(each for each in known if each != new)])
    replace_private(files.ca_key, key_pem(key))
    (folder / NEXT_KEY).unlink()
    return certificate


def finish(folder: Path) -> None:
    """Remove the earlier authorities from `ca.pem`."""
    files = ServerFiles(folder)
    require(not (folder / NEXT_KEY).exists(), f"the server has not switched: {COMMAND} --switch")
    first, *others = read_certificates(files.ca)
    require(bool(others), f"{files.ca} has one authority already: nothing is left to do")
    signed = issued_by(read_certificate(files.certificate), first)
    require(signed, f"{files.certificate} was not signed by the first authority in {files.ca}")
    write_authorities(files.ca, [first])


def write_authorities(path: Path, certificates: list[x509.Certificate]) -> None:
    write_whole(path, b"".join(map(certificate_pem, certificates)))
