"""TLS handshakes without a network."""

import ssl
from pathlib import Path

from cryptography import x509


def handshake(context: ssl.SSLContext, host: str, ca: Path) -> int:
    """The serial number of the certificate that a client sees who trusts the file `ca`. Raises
    ssl.SSLError if it does not accept it."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.load_verify_locations(cadata=ca.read_text())
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there, server_hostname=host)
    server = context.wrap_bio(there, back, server_side=True)
    done = set()
    for _ in range(10):
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    assert done == {client, server}
    return x509.load_der_x509_certificate(client.getpeercert(True)).serial_number
