"""Files that change are found without an update of the whole index."""

import threading
from functools import partial

import pytest
import watchfiles

from foltr.device import indexing as watching
from foltr.device.home import Home
from foltr.device.indexing import MOST, _one_by_one, absolute, follow, read_changed, update
from foltr.device.query import parsed
from foltr.device.searching import search
from waiting import wait_until


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


class Followed:
    """A thread that follows changes, and how often each of its watches has looked for some."""

    def __init__(self, home, index, docs, monkeypatch):
        self.index, self.docs = index, docs
        self.updates, self.looks = [], []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=follow, args=(home, self.stop, self.update))
        monkeypatch.setattr(watchfiles, "watch", partial(self.watch, watchfiles.watch))
        monkeypatch.setattr(watching, "LOOK", 50)
        monkeypatch.setattr(watching, "TOGETHER", 50)

    def update(self):
        self.updates.append(1)
        update(self.index, [self.docs])

    def watch(self, watch, *folders, **options):
        number = len(self.looks)
        self.looks.append(0)
        for changes in watch(*folders, **options):
            self.looks[number] += 1
            yield changes

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: len(self.updates) == 2)  # before the watch, and once it has begun
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(20.0)
        assert not self.thread.is_alive()


def test_a_folder_that_goes_away_and_comes_back_is_watched_again(watched, monkeypatch):
    _, index, docs = watched
    with Followed(*watched, monkeypatch) as followed:
        docs.rename(docs.with_name("away"))
        docs.mkdir()
        (docs / "n.txt").write_text("nectarine")
        wait_until(lambda: names(index, "nectarine") == ["n.txt"], 60.0)
        wait_until(lambda: len(followed.looks) > 1 and followed.looks[-1], 60.0)
        (docs / "o.txt").write_text("orange")
        wait_until(lambda: names(index, "orange") == ["o.txt"], 60.0)


def test_changes_are_followed(watched, monkeypatch):
    _, index, docs = watched
    with Followed(*watched, monkeypatch) as followed:
        (docs / "b.txt").write_text("banana")
        wait_until(lambda: names(index, "banana") == ["b.txt"], 60.0)
        assert len(followed.updates) == 2, "one file is read by itself"
        (docs / "inner").mkdir()
        (docs / "inner" / "d.txt").write_text("damson")
        wait_until(lambda: names(index, "damson") == ["d.txt"], 60.0)


def test_what_changes_before_the_watch_begins_is_found(watched, monkeypatch):
    _, index, docs = watched
    followed, counted = Followed(*watched, monkeypatch), watchfiles.watch

    def late(*folders, **options):
        (docs / "e.txt").write_text("elderberry")
        yield from counted(*folders, **options)

    monkeypatch.setattr(watchfiles, "watch", late)
    with followed:
        wait_until(lambda: names(index, "elderberry") == ["e.txt"], 60.0)
