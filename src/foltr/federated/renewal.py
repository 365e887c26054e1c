"""TLS certificates that are replaced while a server runs.

New connections get the new certificate; open ones stay as they are. The pair of files is read as a
whole into a new context. Until the two files fit together, the earlier pair is used."""

from __future__ import annotations

import ssl
from pathlib import Path

from foltr.errors import Mistake
from foltr.system.log import Tell
from foltr.system.reloaded import Reloaded


def server_context(certificate: Path | str, key: Path | str) -> ssl.SSLContext:
    """The TLS context of a server. Raises a Mistake if the files are no certificate and its
    key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name in (certificate, key):
        try:
            Path(name).read_bytes()
        except OSError as error:
            raise Mistake(f"cannot read {name}: {error.strerror}; it is needed for TLS") from error
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise Mistake(
            f"{certificate} and {key} are no certificate and its key ({error}):"
            " `foltr keys server` makes them"
        ) from error
    return context


def follow_certificate(
    context: ssl.SSLContext, certificate: Path | str, key: Path | str, tell: Tell
) -> Reloaded[ssl.SSLContext]:
    """Let new connections of a listening `context` use the certificate and key in these files.
    Call `refresh` of the returned value regularly: it reads changed files again."""
    files = Path(certificate), Path(key)
    current = Reloaded(files, lambda: server_context(certificate, key), tell)

    def chosen(connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        connection.context = current.value  # before anything of it is sent

    context.sni_callback = chosen  # called without a name, too
    return current
