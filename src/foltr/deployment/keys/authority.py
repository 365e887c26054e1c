"""The certificates of a federation: of its own authority, and of its server."""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_address

from foltr.core.errors import Mistake

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
except ImportError as error:
    raise Mistake(
        f"keys need the package cryptography: pip install 'foltr[deploy]' ({error})"
    ) from None

AUTHORITY = "foltr federation CA"
CA_DAYS = 3650
SKEW = timedelta(hours=1)  # how far a node's clock may be behind the server's


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
