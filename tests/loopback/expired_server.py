"""A TLS server that nobody should trust: `python -m expired_server CERTIFICATE SETTINGS KEY`."""

import socket
import ssl
import sys

certificate, _, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
with socket.create_server(("127.0.0.1", 0)) as listener:
    print("listens", listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        try:
            with context.wrap_socket(connection, server_side=True) as talk:
                talk.recv(1)
        except OSError:
            pass
