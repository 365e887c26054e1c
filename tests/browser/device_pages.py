"""A device for browser tests: a folder of small documents, its index, the real process of `foltr
device search`; and pages of others that try to use it."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from foltr.device.home import Home

DAY = 86_400
NOW = 1_760_000_000  # when the newest document was written
TOPICS = ("garden", "tax", "travel", "kernel", "recipe", "music")
OLDEST = 5  # the number of a topic's last document
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def write_document(folder, name, text, age=0.0):
    """A file that is `age` days old."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (NOW - age * DAY,) * 2)
    return path


def write_documents(folder):
    """Six documents for each of six topics. BM25 prefers the oldest ones: they repeat the words of
    the topic most often."""
    for topic in TOPICS:
        for n in range(OLDEST + 1):
            words = f"{topic} journal " * (1 + 2 * n) + "and some other words of the day. " * 6
            text = f"# Note {n} about {topic}\n\nThe {topic} journal.\n\n{words}\n"
            write_document(folder / topic, f"{topic}-{n}.md", text, age=300.0 * n)
    code = "def parse_module(text):\n    return text.split()\n\n\nclass Scheduler:\n    pass\n"
    write_document(folder / "code", "scheduler.py", code, age=3)
    page = "<title>The web page</title><p>A <b>rental</b> contract for the flat.</p>"
    write_document(folder / "flat", "rental.html", page, age=20)
    filler = "Nothing of interest is on this line of the handbook.\n"
    long = f"Handbook\n\n{filler * 120}The needle is here.\n{filler * 120}Another needle.\n"
    write_document(folder / "flat", "handbook.txt", long, age=40)


def device_environment(device, programs):
    """Of a process: the folder of the device, and the folder of programs that are found first."""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "FOLTR_DEVICE": str(device), "PATH": path}


def opening_program(folder):
    """Make a program xdg-open that notes what it is called with. Returns the file of notes."""
    folder.mkdir(parents=True, exist_ok=True)
    noted, program = folder / "noted", folder / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{noted}"\n')
    program.chmod(0o755)
    return noted


def run_device(device, *arguments):
    """Run a command of `foltr device` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "foltr", "device", *map(str, arguments)],
        env=device_environment(device, device),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class RunningDevice:
    """The process of a page."""

    def __init__(self, device, *options):
        self.home, self.programs = Home(device), device / "programs"
        self.opened = opening_program(self.programs)
        self.errors = open(device / "errors.txt", "w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "foltr", "device", "search", "--no-open", *options],
            env=device_environment(device, self.programs),
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        first = self.process.stdout.readline()
        assert first.startswith("search: http://127.0.0.1:"), first
        self.address = first.removeprefix("search: ").strip()
        self.page, _, self.token = self.address.partition("#")
        self.where = self.page.removeprefix("http://").rstrip("/")

    def searches(self):
        """The logged searches, oldest first: what was typed, and the titles that were opened."""
        log, index = self.home.log(), self.home.index()
        try:
            found = []
            for each in reversed(log.last(1000)):
                names = index.documents(log.opened(each.id))
                found.append((each.query, [document.title for document in names.values()]))
            return found
        finally:
            log.close()
            index.close()

    def interrupt(self, seconds=10.0):
        """Press Ctrl-C. Returns what was written to the error output."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.errors.close()
        return Path(self.errors.name).read_text()


@contextmanager
def running_device(device, *options):
    """A device whose page is served. In the end nothing may have been written to its error
    output."""
    running = RunningDevice(device, *options)
    try:
        yield running
    finally:
        errors = running.interrupt()
    assert errors == "", errors


# of a tab: what the policy of the page has stopped, and how many questions are under way
NOTES = """
window.stopped = [];
window.underway = 0;
addEventListener("securitypolicyviolation", (event) => stopped.push(event.blockedURI));
const ask = window.fetch;
window.fetch = async (...how) => {
  underway += 1;
  try { return await ask(...how); } finally { underway -= 1; }
};
"""


class DeviceTab:
    """A tab with the page of a device. Notes all requests, and what the policy of the page has
    stopped."""

    def __init__(self, watched, running, **how):
        self.watched, self.running = watched(**how), running
        self.tab, self.requests, self.dialogs = self.watched.tab, [], []
        self.watched.context.unroute("**/*")  # half of the time; requests are noted below
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("dialog", self._dialog)
        self.tab.add_init_script(NOTES)
        self.tab.goto(running.address)
        self.tab.wait_for_selector("#amount:has-text('document')")

    def _dialog(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def search(self, text):
        """Search for a text, as a whole. Returns the titles of the results."""
        with self.tab.expect_response(lambda answer: answer.url.endswith("&typing=0")):
            self.tab.fill("#query", text)
            self.tab.press("#query", "Enter")
        self.settled()
        return self.titles()

    def settled(self):
        """Wait until no question is under way, and answers are shown."""
        self.tab.evaluate(
            "async () => { for (let quiet = 0; quiet < 3; quiet = underway ? 0 : quiet + 1)"
            " await new Promise((resolve) => setTimeout(resolve, 15)); }"
        )

    def titles(self):
        return self.tab.locator("#results .title").all_inner_texts()

    def check_clean(self):
        """Nothing asked another place, and no script of a document has run."""
        own = (self.running.page, "data:", "blob:" + self.running.page)
        assert [url for url in self.requests if not url.startswith(own)] == []
        assert self.tab.evaluate("[window.stopped, window.__pwned ?? null]") == [[], None]
        assert self.dialogs == []
        assert self.running.token not in self.tab.url


# ---- pages of others


ATTACK = """async ([target, token, word]) => {
  const found = {}, headers = token ? {"X-Foltr-Token": token} : {};
  const asks = ["/api/status", "/api/history", "/api/export", "/", "/page.js"];
  asks.push(`/api/search?q=${word}`);
  const orders = {pause: {paused: true}, clear: {}, forget: {search: 1}, look: {list: ""},
    open: {list: "", id: 1, how: "program"}};
  const tried = async (name, run) => {
    const late = new Promise((resolve) => setTimeout(() => resolve("nothing"), 5000));
    try {
      found[name] = String(await Promise.race([run(), late]));
    } catch {
      found[name] = "refused";
    }
  };
  const loaded = (tag, about) => () => new Promise((resolve) => {
    const made = Object.assign(document.createElement(tag), about);
    made.onload = () => resolve(`loaded ${made.naturalWidth ?? ""}`);
    made.onerror = () => resolve("failed");
    document.body.append(made);
  });
  const text = (frame) => {
    try { return frame.document.body.innerText; } catch { return "hidden"; }
  };
  const work = [];
  const popup = open(`${target}/#${token}`, "popup");
  work.push(tried("popup", async () => {
    for (let i = 0; i < 99 && text(popup) === ""; i++) {
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    popup.postMessage({q: word, token}, "*");
    return `${text(popup)} ${popup.length}`;
  }));
  for (const path of asks) {
    const address = target + path;
    for (const mode of ["cors", "no-cors", "same-origin"]) {
      const how = {mode, credentials: "include", headers: mode === "no-cors" ? {} : headers};
      work.push(tried(`${mode} ${path}`, async () => {
        const answer = await fetch(address, how);
        return `${answer.type} ${answer.status} ${await answer.text()}`;
      }));
    }
    work.push(tried(`xhr ${path}`, () => new Promise((resolve) => {
      const ask = new XMLHttpRequest();
      ask.onloadend = () => resolve(`${ask.status} ${ask.responseText}`);
      ask.open("GET", address);
      if (token) ask.setRequestHeader("X-Foltr-Token", token);
      ask.send();
    })));
    work.push(tried(`img ${path}`, loaded("img", {src: address})));
    work.push(tried(`script ${path}`, loaded("script", {src: address})));
    work.push(tried(`style ${path}`, loaded("link", {rel: "stylesheet", href: address})));
    work.push(tried(`object ${path}`, loaded("object", {data: address})));
  }
  for (const [name, order] of Object.entries(orders)) {
    const address = `${target}/api/${name}`, body = JSON.stringify(order);
    for (const mode of ["cors", "no-cors"]) {
      const how = {method: "POST", mode, body, headers: mode === "cors" ? headers : {}};
      const run = async () => `${(await fetch(address, how)).status}`;
      work.push(tried(`post ${mode} ${name}`, run));
    }
    work.push(tried(`beacon ${name}`, async () => `${navigator.sendBeacon(address, body)}`));
    work.push(tried(`form ${name}`, () => new Promise((resolve) => {
      const frame = Object.assign(document.createElement("iframe"), {name: `into-${name}`});
      document.body.append(frame);
      const form = Object.assign(document.createElement("form"),
        {method: "POST", enctype: "text/plain", action: address, target: frame.name});
      const field = document.createElement("input");  // sends BODY=
      Object.assign(field, {name: body.slice(0, -1) + ',"x":"', value: '"}'});
      if (body === "{}") field.name = '{"x":"';
      form.append(field);
      document.body.append(form);
      frame.onload = () => resolve(text(frame.contentWindow));
      form.submit();
    })));
  }
  work.push(tried("iframe", () => new Promise((resolve) => {
    const frame = Object.assign(document.createElement("iframe"), {src: `${target}/#${token}`});
    frame.onload = () => resolve(`${text(frame.contentWindow)} ${frame.contentWindow.length}`);
    document.body.append(frame);
  })));
  work.push(tried("websocket", () => new Promise((resolve) => {
    const socket = new WebSocket(`${target.replace("http", "ws")}/api/search?q=${word}`);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("failed");
  })));
  work.push(tried("events", () => new Promise((resolve) => {
    const source = new EventSource(`${target}/api/search?q=${word}`);
    source.onopen = () => resolve("open");
    source.onerror = () => { source.close(); resolve("failed"); };
  })));
  await Promise.all(work);
  popup?.close();
  found.sizes = JSON.stringify(performance.getEntriesByType("resource")
    .filter((each) => each.name.startsWith(target))
    .map((each) => [each.transferSize, each.encodedBodySize, each.responseStatus]));
  return found;
}"""


class OtherSite(BaseHTTPRequestHandler):
    """A server that answers everything, to everybody, and notes who asked for what."""

    def do_GET(self):
        self._answer()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self._answer()

    def do_OPTIONS(self):
        self._answer()

    def _answer(self):
        self.server.noted.append(f"{self.command} {self.path}")
        body = b"<!doctype html><title>other</title><body>an open secret"
        self.send_response(200)
        origin = self.headers.get("origin") or "*"
        for name, value in (
            ("content-type", "text/html"),
            ("content-length", str(len(body))),
            ("access-control-allow-origin", origin),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-headers", "x-foltr-token, content-type"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about):
        pass


@contextmanager
def other_site():
    """A server at another port. Yields the port, and what it was asked for."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), OtherSite)
    server.noted = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], server.noted
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
