"""The process of a device: the page, the place in a federation, and watched folders."""

from __future__ import annotations

import os
import plistlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from foltr.core.errors import Mistake, require
from foltr.core.stepwise import stepwise
from foltr.core.system import web
from foltr.core.system.files import write_whole, writing
from foltr.deployment.gateway.client import Excluded, Unavailable
from foltr.device.guard import Guard
from foltr.device.home import Home
from foltr.device.indexing import Work, follow, reads_everything, update
from foltr.device.learning import ALONE, GUARD, LocalRanker, chosen_start
from foltr.device.membership import SOON, Membership
from foltr.device.page.app import application
from foltr.device.service import Service
from foltr.simulation.runs.interruptions import on_signals

NEVER_LEAVES = (
    "your documents, their names and where they are",
    "what you search for",
    "the lists that you see, and what you open",
    "your own part of the ranker",
)
FOLDERS = 40  # that the page offers as filters
Tell = Callable[[str], None]


class Running:
    """A device that runs.

    home, guard: its folder, and what decides which list is shown
    tell: writes a line to its log
    read_only: nothing is learned or sent
    explore: a device without a federation draws its lists (Plackett-Luce)"""

    def __init__(
        self,
        home: Home,
        guard: Guard = GUARD,
        tell: Tell = lambda text: None,
        read_only: bool = False,
        explore: bool = False,
    ) -> None:
        self.home, self.tell, self._guard, self._read_only = home, tell, guard, read_only
        self._learner = replace(ALONE, explore=explore)  # without a federation
        self.index, self.log = home.existing(), home.log()
        self.work: Work | None = None  # of an update that is being made
        self._folders: tuple[int, list[dict[str, Any]]] | None = None
        self.service = self._opened()

    def _opened(self) -> Service:
        agreed = self.home.agreed(self.log)
        if agreed is None:
            start = chosen_start(self.log)
            ranker = LocalRanker(self.log, self._learner, start, self._guard)
            if self.log.period.federation and not self._read_only:  # its files are lost
                ranker.end_membership(ALONE, start)
                ranker.replay()
            return Service(self.index, self.log, ranker, read_only=self._read_only)
        learner = stepwise(agreed.device_learner)
        on = self._guard.on and agreed.learner.reward_levels == 0  # rewards are of its own lists
        guard = self._guard if on else Guard(on=False)
        ranker = LocalRanker(self.log, learner, agreed.ranker, guard)
        membership = Membership(self.home, ranker, self.tell)
        service = Service(self.index, self.log, ranker, membership, self._read_only)
        if self._read_only:
            return service
        membership.settle()
        if membership.forgotten:  # it was stopped before it was done
            membership.end(keys=True)
            return self._opened()
        return service

    @property
    def membership(self) -> Membership | None:
        return self.service.membership

    # --- what the page asks ---

    def status(self) -> dict[str, Any]:
        service, ranker = self.service, self.service.ranker
        service.close_old()
        work = self.work
        with service.lock:
            seen = self.index.files().values()
            made, clicked = self.log.counts()
            here = self.membership
            return {
                "documents": self.index.statistics().documents,
                "files": len(seen),
                "megabytes": round(_size(self.home.index_file) / 1e6, 1),
                "paused": service.paused,
                "indexing": work and {"read": work.read, "total": work.total},
                "unread": dict(Counter(each.unread for each in seen if each.unread)),
                "folders": self._folder_counts(),
                "model": {
                    "round": ranker.epoch.round or None, "searches": made, "clicks": clicked,
                    "parameters": len(ranker.epoch.params),
                },
                "guard": {
                    "showing": ranker.shows(service.paused),
                    "text": guard_text(ranker, service.paused),
                },
                "explore": ranker.explores,
                "never_leaves": list(NEVER_LEAVES),
                "messages": len(self.log.messages()),  # to all federations
                "federation": None if here is None or here.over else here.about(),
            }  # fmt: skip

    def _folder_counts(self) -> list[dict[str, Any]]:
        state = self.index.changes
        if self._folders is None or self._folders[0] != state:
            counts = Counter(Path(path).parent.name for path in self.index.files())
            found = [{"name": n, "documents": m} for n, m in counts.most_common(FOLDERS) if n]
            self._folders = state, found
        return self._folders[1]

    def leave(self, forget: bool) -> str:
        if self.membership is None:
            raise Mistake("this device has not joined a federation")
        text = self.membership.forget() if forget else self.membership.leave()
        self._go_on()
        return text

    def _go_on(self) -> None:
        """Go on without a federation, if the device has left it."""
        with self.service.lock:
            if self.membership is not None and self.membership.over:
                self.service = self._opened()

    def clear(self, index: bool) -> None:
        """Delete all searches, clicks and what was learned; with `index`, the documents too. No
        page may run."""
        self.service.forget(None)
        if index:
            with self.index.batch():
                for path in self.index.files():
                    self.index.remove(path)
            self.index.set_roots([])
            self.index.shrink()

    def wait_forgotten(self, seconds: float) -> bool:
        """Wait until the server has forgotten this device, for at most so long."""
        until = time.monotonic() + seconds
        membership = self.membership
        while membership is not None and time.monotonic() < until:
            with suppress(Unavailable, Excluded):
                membership.once()
            if membership.over:
                break
            time.sleep(1.0)
        self._go_on()
        return self.membership is None

    # --- running ---

    def _show(self, work: Work) -> None:
        self.work = work

    def update(self) -> Work:
        """Bring the index up to date with its folders."""
        other = self.home.existing()  # a connection of its own, for this thread
        try:
            roots = other.roots()
            if not roots:
                return Work()
            with self.home.alone("indexing"):
                return update(other, roots, reads_everything(other), self._show)
        finally:
            self.work = None
            other.close()

    @contextmanager
    def started(
        self, every: float | None = None, watch: bool = False
    ) -> Iterator[threading.Event]:
        """Within it, threads take part in the federation, update the index with `every` so often
        (seconds), and with `watch` when a file changes. Yields what stops them."""
        stop = threading.Event()
        works: list[Callable[[threading.Event], None]] = [self._take_part]
        works += [partial(self._keep_updated, every=every)] if every is not None else []
        works += [self._follow] if watch else []
        with ExitStack() as stack:
            for work in works:
                thread = threading.Thread(target=work, args=(stop,), daemon=True)
                thread.start()
                stack.callback(thread.join, 2.0)
            try:
                yield stop
            finally:
                stop.set()
                if self.membership is not None:
                    self.membership.wake.set()

    def _take_part(self, stop: threading.Event) -> None:
        while not stop.is_set():
            membership = self.membership
            if membership is None:
                stop.wait(5.0)
                continue
            membership.run(stop, lambda: self.service.paused)
            self._go_on()

    def _keep_updated(self, stop: threading.Event, every: float) -> None:
        while not stop.is_set():
            try:
                self.update()
            except Mistake as mistake:
                self.tell(str(mistake))
            stop.wait(every)

    def _follow(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                follow(self.home, stop, self.update)
            except Mistake as mistake:  # the disk is full, or there are too many folders
                self.tell(f"{mistake}: trying again in a minute")
                stop.wait(60.0)


def guard_text(ranker: LocalRanker, paused: bool = False) -> str:
    """What is shown, and why, in one sentence or two."""
    z, guard = ranker.evidence, ranker.guard
    if not guard.on:
        order = "drawn at random, best documents first more often" if ranker.explores else "shown"
        return f"There is no guard: lists of the learned ranker are always {order}."
    if ranker.made == 0:
        if ranker.is_bm25:
            return "Nothing is learned yet: lists are those of plain word matching (BM25)."
        return (
            "Nothing is learned from you yet. Lists mix what was learned elsewhere with plain word"
            " matching (BM25), to find out which of them you prefer."
        )
    often = " One list in {} mixes the two, to notice if that changes."
    if z >= guard.up:
        shown = (
            "Your clicks prefer the learned order to plain word matching (BM25), so it is shown."
        )
        return shown if paused else shown + often.format(guard.mix_learned)
    if z <= guard.down:
        shown = (
            "Your clicks do not prefer the learned order, so plain word matching (BM25) is shown."
        )
        return shown if paused else shown + often.format(guard.mix_bm25)
    unclear = (
        "It is not clear yet whether you prefer the learned order or plain word matching (BM25): "
    )
    paused_text = "while learning is paused, lists are those of BM25."
    return unclear + (paused_text if paused else "lists mix the two.")


def _size(path: Path) -> int:
    parts = [path, path.with_name(f"{path.name}-wal")]
    return sum(part.stat().st_size for part in parts if part.exists())


def _stop(signum: int, frame: object) -> None:
    raise KeyboardInterrupt  # as Ctrl-C: the page is taken down in order


def serve(
    home: Home,
    port: int,
    tell: Tell,
    ready: Callable[[str], None],
    every: float | None = None,
    watch: bool = False,
    guard: Guard = GUARD,
    explore: bool = False,
    soon: float = SOON,
) -> None:
    """Serve the page until Ctrl-C.

    tell: writes a line to the log
    ready: gets the address of the page, with the token
    every, watch: as of `Running.started`
    guard, explore: as of `Running`
    soon: seconds between two looks for a new model in the minutes after a message"""
    with home.alone("page"):
        running = Running(home, guard, tell, explore=explore)
        if running.membership is not None:
            running.membership.soon_seconds = soon
        opened = web.listening_socket(web.HOST, port)
        address, token = web.address(opened), web.new_token()
        where = address.removeprefix("http://").rstrip("/")
        server = web.web_server(application(running, where, token))
        home.set_page(f"{address}#{token}")
        try:
            with on_signals(_stop), running.started(every, watch):
                ready(f"{address}#{token}")
                web.run_until_stopped(server, opened)
        finally:
            home.set_page(None)


# Start the search page at login: a file where the desktop looks for programs to start.

NAME = "foltr-device"


def login_file() -> Path:
    """Where the desktop of this user finds programs to start."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "LaunchAgents" / f"{NAME}.plist"
    if sys.platform == "win32":
        menu = Path(os.environ.get("APPDATA", home)) / "Microsoft" / "Windows" / "Start Menu"
        return menu / "Programs" / "Startup" / f"{NAME}.cmd"
    config = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(config) / "autostart" / f"{NAME}.desktop"


def start_at_login(folder: Path) -> Path:
    """Start the page of the device in `folder` at login. Returns the file that says so."""
    file = login_file()
    command = [sys.executable, "-m", "foltr", "device", "search", "--no-open", "--home"]
    command.append(str(folder.resolve()))
    odd = [word for word in command if set(word) & set('"\n%`$\\') and sys.platform != "win32"]
    require(not odd, f"{odd[:1]} cannot be written into {file}: choose a folder with a plain name")
    quoted = " ".join(f'"{word}"' for word in command)
    if sys.platform == "darwin":
        content = {"Label": NAME, "ProgramArguments": command, "RunAtLoad": True}
        text = plistlib.dumps(content).decode()
    elif sys.platform == "win32":
        text = f'@start "" /min {quoted}\r\n'
    else:
        text = f"[Desktop Entry]\nType=Application\nName=foltr device search\nExec={quoted}\n"
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
    return file


def stop_at_login() -> bool:
    """Do not start the page at login. Returns whether it was started before."""
    file = login_file()
    started = file.exists()
    with writing(file):
        file.unlink(missing_ok=True)
    return started
