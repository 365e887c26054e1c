"""Processes of a device for tests of faults: its commands, its search page, and one that is killed
at a moment; and servers that are no gateways."""

import http.client
import json
import signal
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, urlsplit

from foltr.core.system.web import TOKEN


def device_command(home, *words, code=0):
    """Run `foltr device ...` with this folder. Returns what it prints."""
    command = [sys.executable, "-m", "foltr", "device", *words, "--home", str(home.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    assert "Traceback" not in text, text
    return text


def killed_at(home, when, *forget, seconds=90):
    """Run a device that is killed at a moment of its next answer."""
    command = [sys.executable, "-m", "dying_device", when, str(home.folder), *forget]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("killed"), done.stdout + done.stderr


class PageProcess:
    """`foltr device search` in a process of its own (`with`)."""

    def __init__(self, home, *options):
        self.home, self.options, self.process = home, options, None

    def __enter__(self):
        words = "search", "--no-open", "--update-every", "0", "--soon", "0.2", *self.options
        command = [sys.executable, "-m", "foltr", "device", *words]
        self.errors = open(self.home.folder / "page.log", "a")
        self.process = subprocess.Popen(
            [*command, "--home", str(self.home.folder)],
            stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        assert line.startswith("search: "), line + self.log
        self.address = line.partition(": ")[2].strip()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(20)
        self.process.stdout.close()
        self.errors.close()

    @property
    def log(self):
        return (self.home.folder / "page.log").read_text()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)

    def ask(self, method, path, content=None):
        """One request of the page, with its token."""
        where = urlsplit(self.address)
        headers = {
            "sec-fetch-site": "same-origin", TOKEN: where.fragment,
            "content-type": "application/json",
        }  # fmt: skip
        connection = http.client.HTTPConnection(where.netloc, timeout=60)
        try:
            body = None if content is None else json.dumps(content)
            connection.request(method, f"/api/{path}", body, headers)
            response = connection.getresponse()
            found = json.loads(response.read())
        finally:
            connection.close()
        assert response.status == 200, found
        return found

    def search_and_open(self, text, place=0):
        """Search, and open a result. Returns the document's number."""
        found = self.ask("GET", f"search?q={quote(text)}&typing=0")
        id = found["results"][place]["id"]
        self.ask("POST", "open", {"list": found["list"], "id": id, "how": "preview"})
        return id

    def close_searches(self):
        """Close the last search."""
        for paused in (True, False):
            self.ask("POST", "pause", {"paused": paused})


@contextmanager
def no_gateway(body, status=200, keys=None):
    """A server that is no gateway, by HTTPS if `keys` is the folder of a certificate. Yields its
    address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *given):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if keys is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keys / "server.pem", keys / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{'http' if keys is None else 'https'}://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
