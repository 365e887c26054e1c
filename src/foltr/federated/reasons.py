"""Why a node has no connection, in words that say what to do."""

import re
import socket
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

AHEAD, BEHIND = 5.0, 305.0  # seconds that a node's clock may differ from the SuperLink's

CERTIFICATES = (
    (
        "certificate has expired",
        "the server's certificate has expired (or this machine's clock is wrong): the server"
        " needs a new one",
    ),
    ("not yet valid", "the server's certificate is not valid yet: is this machine's clock right?"),
    (
        "hostname mismatch|ip address mismatch|not valid for",
        "the server's certificate is for another name than {address}: use the name that is in"
        " it, or have one made for this name",
    ),
    (
        "self.signed|unable to get local issuer|unable to get issuer|signature failure",
        "the server's certificate is not signed by {roots}: somebody else answers at {address},"
        " or the file is of another federation",
    ),
    ("certificate", "the server's certificate is not accepted: {text}"),
    (
        "wrong_version_number|record layer|unknown protocol|http request",
        "{address} does not speak TLS: the server runs without it, or this is another port",
    ),
)


def of_tls(text: str, address: str, roots: str | None) -> str | None:
    """The reason in the text of a TLS error; None if it is of something else."""
    low = text.lower()
    if not any(word in low for word in ("ssl", "tls", "certificate")):
        return None
    known = roots or "a known authority (give the federation's certificate file)"
    for pattern, reason in CERTIFICATES:
        if re.search(pattern, low):
            return reason.format(address=address, roots=known, text=text)
    return f"no TLS connection to {address}: {text}"


def speaks_tls(host: str, port: int) -> bool:
    """Whether a port answers a TLS greeting, whoever it is."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), 3.0) as plain:
            with context.wrap_socket(plain, server_hostname=host):
                return True
    except (OSError, ValueError):
        return False


def of_clock(date: str | None, now: datetime) -> str | None:
    """The reason if this clock differs from the server's by more than Flower allows. `date` is
    the HTTP header of the answer."""
    try:
        server = parsedate_to_datetime(date or "")
    except ValueError:
        return None
    if server.tzinfo is None:
        server = server.replace(tzinfo=UTC)
    ahead = (now - server).total_seconds()
    if -BEHIND + 1 < ahead < AHEAD - 1:  # the header is in whole seconds
        return None
    way = "ahead of" if ahead > 0 else "behind"
    return (
        f"this clock is {abs(ahead):.0f} s {way} the server's: set it (NTP). The server accepts"
        f" {AHEAD:.0f} s ahead to {BEHIND:.0f} s behind"
    )
