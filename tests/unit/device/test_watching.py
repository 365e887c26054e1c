"""Files that change are found without an update of the whole index."""

import threading
import time

import pytest

from foltr.device import watching
from foltr.device.home import Home
from foltr.device.indexing import absolute, update
from foltr.device.query import parsed
from foltr.device.searching import search
from foltr.device.watching import MOST, _one_by_one, follow, read_changed

pytest.importorskip("Stemmer", reason="needs foltr[device]")


@pytest.fixture
def watched(tmp_path):
    """A device, and the folder that it has indexed."""
    docs, home = tmp_path / "docs", Home(tmp_path / "device")
    docs.mkdir()
    (docs / "a.txt").write_text("apple")
    index = home.index()
    roots = absolute([str(docs)])
    index.set_roots(roots)
    update(index, roots)
    return home, index, roots[0]


def names(index, text):
    return sorted(each.path.rpartition("/")[2] for each in search(index, parsed(text)).documents)


def test_only_the_files_that_changed_are_read(watched):
    _, index, docs = watched
    (docs / "b.txt").write_text("banana")
    (docs / "c.txt").write_text("cherry")
    (docs / ".hidden.txt").write_text("banana")
    read_changed(index, [docs], {str(docs / "b.txt"), str(docs / ".hidden.txt")})
    assert names(index, "banana") == ["b.txt"] and names(index, "cherry") == []
    (docs / "a.txt").unlink()
    read_changed(index, [docs], {str(docs / "a.txt"), str(docs / "never-there")})
    assert names(index, "apple") == []


def test_when_all_folders_are_looked_through(watched):
    _, index, docs = watched
    (docs / "inner").mkdir()
    assert _one_by_one(index, {str(docs / "a.txt"), str(docs / "gone.txt")})
    assert not _one_by_one(index, set())
    assert not _one_by_one(index, {str(docs / "inner")})
    assert not _one_by_one(index, {str(docs / ".gitignore")})
    assert not _one_by_one(index, {f"{docs}/{number}" for number in range(MOST + 1)})
    (docs / "a.txt").rename(docs / "inner" / "a.txt")
    update(index, [docs])
    (docs / "inner").rename(docs.parent / "elsewhere")
    assert not _one_by_one(index, {str(docs / "inner")})


def found_soon(index, text, expected):
    until = time.monotonic() + 60.0
    while names(index, text) != expected:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_folder_that_goes_away_and_comes_back_is_watched_again(watched, monkeypatch):
    pytest.importorskip("watchfiles", reason="needs foltr[device]")
    monkeypatch.setattr(watching, "LOOK", 200)
    home, index, docs = watched
    stop = threading.Event()

    def whole():
        update(index, [docs])

    thread = threading.Thread(target=follow, args=(home, stop, whole), daemon=True)
    thread.start()
    try:
        time.sleep(1.0)
        docs.rename(docs.with_name("away"))
        docs.mkdir()
        (docs / "n.txt").write_text("nectarine")
        found_soon(index, "nectarine", ["n.txt"])
        time.sleep(1.5)
        (docs / "o.txt").write_text("orange")
        found_soon(index, "orange", ["o.txt"])
    finally:
        stop.set()
        thread.join(20.0)


def test_changes_are_followed(watched):
    pytest.importorskip("watchfiles", reason="needs foltr[device]")
    home, index, docs = watched
    stop, updates = threading.Event(), []

    def whole():
        updates.append(1)
        update(index, [docs])

    thread = threading.Thread(target=follow, args=(home, stop, whole), daemon=True)
    thread.start()
    try:
        until, number = time.monotonic() + 60.0, 0
        while names(index, "banana") != ["b.txt"]:  # again: it may not watch yet
            number += 1
            (docs / "b.txt").write_text("banana " * number)
            assert time.monotonic() < until
            time.sleep(0.2)
        (docs / "inner").mkdir()
        (docs / "inner" / "d.txt").write_text("damson")
        while names(index, "damson") != ["d.txt"]:
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        stop.set()
        thread.join(20.0)
    assert not thread.is_alive() and updates
