"""Error messages for failed connections: why a node cannot connect, and what to do."""

import re
import socket
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

AHEAD, BEHIND = 5.0, 305.0  # seconds by which a node's clock may differ from the SuperLink's

CERTIFICATES = (
    (
        "certificate has expired",
        "the server's certificate has expired, or this machine's clock is wrong: check the clock,"
        " or ask the server's operator to run `foltr keys renew`",
    ),
    ("not yet valid", "the server's certificate is not valid yet: is this machine's clock right?"),
    (
        "hostname mismatch|ip address mismatch|not valid for",
        "the server's certificate is for another name than {address}: use a name that is in it, or"
        " ask the server's operator to run `foltr keys renew --host NAME`",
    ),
    (
        "self.signed|unable to get local issuer|unable to get issuer|signature failure",
        "the server's certificate is not signed by {roots}: either {address} is not your server,"
        " or the file belongs to another federation; copy ca.pem from the server again",
    ),
    ("certificate", "the server's certificate is not accepted: {text}"),
    (
        "wrong_version_number|record layer|unknown protocol|http request",
        "{address} does not speak TLS: check the port, or whether the server runs with --insecure",
    ),
)


def of_tls(text: str, address: str, roots: str | None) -> str | None:
    """An explanation of a TLS error, by its text; None if the error is not about TLS."""
    low = text.lower()
    if not any(word in low for word in ("ssl", "tls", "certificate")):
        return None
    known = roots or "a known authority (set ca in [node] to the federation's ca.pem)"
    for pattern, reason in CERTIFICATES:
        if re.search(pattern, low):
            return reason.format(address=address, roots=known, text=text)
    return f"no TLS connection to {address}: {text}"


def speaks_tls(host: str, port: int) -> bool:
    """Whether the server at this address speaks TLS. Its certificate is not checked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), 3.0) as plain:
            with context.wrap_socket(plain, server_hostname=host):
                return True
    except (OSError, ValueError):
        return False


def of_clock(date: str | None, now: datetime) -> str | None:
    """An explanation if this machine's clock differs from the server's by more than Flower allows;
    else None. `date` is the HTTP header Date of the response."""
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
        f"this clock is {abs(ahead):.0f} s {way} the server's: set it (NTP). The server accepts up"
        f" to {AHEAD:.0f} s ahead and {BEHIND:.0f} s behind"
    )
