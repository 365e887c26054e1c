"""The keys of a federation: the server's certificate, and the keys of nodes.

- The server has a TLS certificate. The federation's own certificate authority signs it. Nodes
  trust this authority (`ca.pem`) and no other.
- A node has a P-384 key, by which Flower authenticates it, and an Ed25519 key, with which it signs
  in secure sums. Both are made on the node's machine; only its card, with the public keys, leaves
  it."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, require, shown
from foltr.core.system.files import write_whole
from foltr.core.system.private import make_folder, private_content, replace_private
from foltr.deployment.keys.roster import SIGNS, Seat, canonical
from foltr.deployment.keys.roster_file import card_text

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
        load_ssh_private_key,
        load_ssh_public_key,
    )
except ImportError as error:
    raise Mistake(
        f"keys need the package cryptography: pip install 'foltr[deploy]' ({error})"
    ) from None

CA, CA_KEY, SERVER, SERVER_KEY = "ca.pem", "ca.key", "server.pem", "server.key"
NODE_KEY, SIGN_KEY = "node.key", "sign.key"
AUTHORITY = "foltr federation CA"
CA_DAYS = 3650
SKEW = timedelta(hours=1)  # how far a node's clock may be behind the server's
SERVER_DAYS = 365
SOON = 30  # a certificate that expires in fewer days gets a warning
ALWAYS = ("localhost", "127.0.0.1")
LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
MADE = "`foltr keys server` makes the server's keys"


@dataclass(frozen=True)
class ServerFiles:
    """The folder of the server's keys."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / CA

    @property
    def ca_key(self) -> Path:
        return self.folder / CA_KEY

    @property
    def certificate(self) -> Path:
        return self.folder / SERVER

    @property
    def key(self) -> Path:
        return self.folder / SERVER_KEY


def make_server(
    folder: Path, hosts: Iterable[str], days: int = SERVER_DAYS, now: datetime | None = None
) -> x509.Certificate:
    """Make a certificate authority, and a server certificate for these hosts (names or IPs)."""
    now, names = now or datetime.now(UTC), checked_hosts(hosts)
    require(1 <= days <= CA_DAYS, f"days = {days}: expected 1 to {CA_DAYS}")
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = authority_certificate(ca_key, now)
    certificate = server_certificate(key.public_key(), names, ca, ca_key, now, days)
    make_folder(
        folder,
        private={CA_KEY: key_pem(ca_key), SERVER_KEY: key_pem(key)},
        public={CA: certificate_pem(ca), SERVER: certificate_pem(certificate)},
    )
    return certificate


def renew_server(
    folder: Path,
    days: int = SERVER_DAYS,
    hosts: Iterable[str] = (),
    now: datetime | None = None,
    new_key: bool = False,
) -> x509.Certificate:
    """Replace the server's certificate by a new one of the same authority, with the same key or a
    new one. Without `hosts`, it is valid for the same hosts."""
    files, now = ServerFiles(folder), now or datetime.now(UTC)
    ca, ca_key = read_certificate(files.ca), read_key(files.ca_key)
    check_pair(files.ca, files.ca_key)
    names = checked_hosts(hosts or hosts_of(read_certificate(files.certificate)))
    left = (ca.not_valid_after_utc - now).days
    require(left >= 1, f"the authority {files.ca} has expired: make a new one (foltr keys server)")
    require(
        1 <= days <= left,
        f"days = {days}: expected 1 to {left}, because the authority ends on"
        f" {ca.not_valid_after_utc:%Y-%m-%d}",
    )
    key = ec.generate_private_key(ec.SECP256R1()) if new_key else read_key(files.key)
    certificate = server_certificate(key.public_key(), names, ca, ca_key, now, days)
    if new_key:  # a running server uses the earlier pair until both files fit
        replace_private(files.key, key_pem(key))
    write_whole(files.certificate, certificate_pem(certificate))
    return certificate


def make_node(
    folder: Path, name: str, clients: int = 1, gateway: bool = False
) -> tuple[Seat, Path]:
    """Make the keys and the card of a node in a new folder. Returns the node and the path of the
    card, which the server's operator needs."""
    public, private = new_node_keys()
    seat = Seat(name, clients, *public, gateway=gateway)
    card = f"{name}.node.toml"
    make_folder(folder, private=private, public={card: card_text(seat).encode()})
    return seat, folder / card


def new_node_keys() -> tuple[tuple[bytes, bytes], dict[str, bytes]]:
    """New keys of a node: the public ones, as in the roster, and the files of the private ones."""
    key, signs = new_key(), Ed25519PrivateKey.generate()
    return (public_line(key), signs.public_key().public_bytes_raw()), {
        NODE_KEY: key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        SIGN_KEY: b64encode(signs.private_bytes_raw()) + b"\n",
    }


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new private key by which Flower authenticates a node."""
    return ec.generate_private_key(ec.SECP384R1())


def checked_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    """Host names and IP addresses in canonical form, with those of the local machine added."""
    given = [checked_host(host) for host in hosts]
    require(bool(given), "a server needs a host: --host NAME_OR_IP, the address that nodes use")
    return tuple(dict.fromkeys([*given, *ALWAYS]))


def checked_host(host: str) -> str:
    """A host name in lowercase, or an IP address in canonical form."""
    try:
        address = ip_address(host)
    except ValueError:
        name = host.lower()
        labels = name.split(".")
        fine = len(name) <= 253 and all(LABEL.fullmatch(label) for label in labels)
        if not fine or labels[-1].isdigit():
            raise Mistake(
                f"{shown(host)} is neither a host name nor an IP address: write it without"
                " https://, port or path, such as search.example.org or 10.0.0.5"
            ) from None
        return name
    if address.is_unspecified or "%" in host:
        raise Mistake(f"nodes cannot connect to {host}: give the server's host name or IP address")
    return str(address)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def read_certificate(path: Path) -> x509.Certificate:
    """Read the first certificate of a file."""
    return read_certificates(path)[0]


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Read all certificates of a file. While a federation moves to another authority, `ca.pem`
    has two."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror or error}: {MADE}") from None
    except ValueError:
        raise Mistake(f"{path} is no certificate (PEM): {MADE}") from None


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read the private key of a certificate. Only its owner may be able to read the file."""
    content = private_content(path)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Mistake(f"{path} is no private key (PEM, without a password): {MADE}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Mistake(f"{path} is a private key of another kind, not an elliptic curve: {MADE}")
    return key


def read_node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a node's private key. Only its owner may be able to read the file."""
    content = private_content(path)
    try:
        key = load_ssh_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise Mistake(
            f"{path} is no P-384 key in OpenSSH's format without a password: `foltr keys node"
            " NAME` makes one"
        )
    return key


def read_sign_key(path: Path) -> bytes:
    """Read the private Ed25519 key with which a node signs in secure sums."""  # 32 bytes
    content = private_content(path)
    try:
        private = b64decode(content.strip(), validate=True)
    except ValueError:
        private = b""
    require(
        len(private) == SIGNS,
        f"{path} is no key of {SIGNS} bytes in base64: `foltr keys node NAME` makes one",
    )
    return private


def public_of_sign_key(private: bytes) -> bytes:
    """The public key of a private Ed25519 key, as in the roster."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def public_line(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key of a node, as in the roster."""
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def sign_by_node(key: ec.EllipticCurvePrivateKey, text: bytes) -> bytes:
    return key.sign(text, ec.ECDSA(SHA384()))


def signed_by_node(line: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the signature is by the node with this public key of the roster."""
    public: Any = load_ssh_public_key(line)
    try:
        public.verify(signature, text, ec.ECDSA(SHA384()))
    except InvalidSignature:
        return False
    return True


def flower_key(key: bytes) -> bytes:
    """A public key of a node, as in the roster or as PEM, in Flower's format
    (`NodeInfo.public_key`)."""
    pem = key.lstrip().startswith(b"-----")
    line = roster_key(key) if pem else canonical(key.decode(errors="replace"))
    public = load_ssh_public_key(line)
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def roster_key(pem: bytes) -> bytes:
    """A public key from Flower in the roster's format. Raises a Mistake if it is no P-384 key."""
    try:
        public = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise Mistake(f"{shown(pem)} is no public key (PEM)") from None
    return canonical(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The host names and IP addresses for which a certificate is valid."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    return (
        *names.get_values_for_type(x509.DNSName),
        *(str(address) for address in names.get_values_for_type(x509.IPAddress)),
    )


def check_dates(path: Path, now: datetime | None = None, way_out: str = "") -> list[str]:
    """Refuse a certificate that has expired or is not yet valid; a warning if it expires soon. Of
    several, the one that is valid for longest counts."""
    found, now = read_certificates(path), now or datetime.now(UTC)
    valid = [each for each in found if each.not_valid_before_utc <= now]
    certificate = max(valid or found, key=lambda each: each.not_valid_after_utc)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    require(
        now >= start,
        f"{path} is not valid before {start:%Y-%m-%d %H:%M} UTC: is the clock of this machine"
        f" right? (it is {now:%Y-%m-%d %H:%M} UTC here)",
    )
    way_out = way_out or (
        "make a new federation (foltr keys server)"
        if certificate.subject == certificate.issuer
        else f"foltr keys renew --out {path.parent.parent}"
    )
    require(now <= end, f"{path} expired on {end:%Y-%m-%d}: {way_out}")
    left = (end - now).days
    soon = f"{path} expires on {end:%Y-%m-%d}, in {left} days: {way_out}"
    return [soon] if left < SOON else []


def check_host(path: Path, host: str) -> None:
    """Refuse a certificate that is not valid for this host."""
    known, wanted = hosts_of(read_certificate(path)), checked_host(host)
    above = wanted.partition(".")[2]  # a certificate from another authority may have *.example.org
    require(
        wanted in {name.lower() for name in known} or (bool(above) and f"*.{above}" in known),
        f"{path} is not for {host}, only for {', '.join(known) or 'no host'}:"
        f" foltr keys renew --out {path.parent.parent} --host {host}",
    )


def check_pair(certificate: Path, key: Path) -> None:
    """Refuse a private key that does not belong to the certificate."""
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ours = read_key(key).public_key().public_bytes(*form)
    require(
        read_certificate(certificate).public_key().public_bytes(*form) == ours,
        f"the key {key} does not belong to the certificate {certificate}: use two files that"
        " were made together",
    )


def check_issued(certificate: Path, ca: Path) -> None:
    """Refuse a certificate that no authority in the file `ca` has signed."""
    issued, authorities = read_certificate(certificate), read_certificates(ca)
    require(
        any(issued_by(issued, authority) for authority in authorities),
        f"{certificate} was not signed by {ca}: use the two files that were made together",
    )


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def check_server(folder: Path, host: str | None = None, now: datetime | None = None) -> list[str]:
    """Check the files that a running server needs. The authority's private key is not one of them:
    it may be kept elsewhere. Returns warnings about certificates that expire soon."""
    files = ServerFiles(folder)
    warnings = [*check_dates(files.ca, now), *check_dates(files.certificate, now)]
    check_issued(files.certificate, files.ca)
    check_pair(files.certificate, files.key)
    if host is not None:
        check_host(files.certificate, host)
    return warnings


# The certificates.


def authority_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    """The certificate of a new authority, signed by itself."""
    name, end = _name(AUTHORITY), now + timedelta(days=CA_DAYS)
    return (
        _builder(name, name, key.public_key(), key, now, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, SHA256())
    )


def server_certificate(
    public: ec.EllipticCurvePublicKey,
    hosts: tuple[str, ...],
    ca: x509.Certificate,
    ca_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
) -> x509.Certificate:
    """The certificate of a server for these hosts, signed by an authority."""
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    subject, end = _name("foltr server"), now + timedelta(days=days)
    return (
        _builder(subject, ca.subject, public, ca_key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .add_extension(names, critical=False)
        .sign(ca_key, SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    now: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(issued_by, critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


# Move a federation to a new certificate authority while all nodes stay connected.

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
