"""The index follows the folders of its user: new, changed and lost files; interruptions at any
moment; a full disk; a second process that reads."""

import os
import random
import signal
import subprocess
import sys
import textwrap

import pytest

from foltr.core.errors import Mistake
from foltr.core.system.state_file import Unusable
from foltr.device import indexing
from foltr.device.index import Index
from foltr.device.indexing import absolute, read_changed, update, update_file
from foltr.device.query import parsed
from foltr.device.searching import search
from foltr.device.walking import find

MESSAGE = """\
From ann@example.org Mon Jan  1 10:00:00 2024
From: Ann <ann@example.org>
Subject: {0}
Message-ID: <{1}@example.org>

The {0} is ready.

"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "docs"
    place.mkdir()
    return place.resolve()


@pytest.fixture
def index():
    return Index(None)


def write_files(folder, **texts):
    for name, text in texts.items():
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def mailbox(*subjects):
    return "".join(MESSAGE.format(each, number) for number, each in enumerate(subjects))


def set_time(path, seconds):
    """A change within the clock's resolution is not seen as one."""
    os.utime(path, (seconds, seconds))


def files_with(index, text):
    """The names of the files that a query finds."""
    return sorted(each.path.rpartition("/")[2] for each in search(index, parsed(text)).documents)


def contents(index):
    """All documents and counts, without numbers that depend on the order of work."""
    documents = index._db.execute(
        "select f.path, d.part, d.kind, d.title, d.lengths, d.id from document d join file f on"
        " f.id = d.file order by 1, 2"
    ).fetchall()
    texts = [(*row[:-1], index.texts(row[-1])) for row in documents]
    terms = index._db.execute("select * from term order by term").fetchall()
    seen = {path: file[1:] for path, file in index.files().items()}
    return texts, terms, seen


def is_sound(index):
    index._db.execute("insert into words (words) values ('integrity-check')")
    return index._db.execute("pragma integrity_check").fetchone() == ("ok",)


def reads_of(monkeypatch):
    """The names of the files that are read from now on."""
    found, real = [], indexing.texts_of

    def counted(path, *rest):
        found.append(path.name)
        return real(path, *rest)

    monkeypatch.setattr(indexing, "texts_of", counted)
    return found


# --- what changes ---


def test_new_files_are_found(folder, index):
    write_files(folder, a="apple pie", b="banana")
    work = update(index, [folder])
    assert (work.files, work.read, work.documents, work.total) == (2, 2, 2, 2)
    assert files_with(index, "apple") == ["a.txt"]
    write_files(folder, **{"deep/er/c": "apple tree"})
    work = update(index, [folder])
    assert (work.files, work.unchanged, work.read) == (3, 2, 1)
    assert files_with(index, "apple") == ["a.txt", "c.txt"]


def test_a_changed_file_is_found_by_its_new_text(folder, index):
    write_files(folder, a="apple", b="banana")
    update(index, [folder])
    write_files(folder, a="cherry")
    set_time(folder / "a.txt", 1000)
    work = update(index, [folder])
    assert (work.unchanged, work.read, work.documents, work.removed) == (1, 1, 1, 0)
    assert files_with(index, "apple") == [] and files_with(index, "cherry") == ["a.txt"]


def test_a_file_of_the_same_size_with_a_new_time_is_read_again(folder, index):
    write_files(folder, a="one")
    set_time(folder / "a.txt", 1000)
    update(index, [folder])
    write_files(folder, a="two")
    set_time(folder / "a.txt", 1001)
    assert update(index, [folder]).documents == 1 and files_with(index, "two") == ["a.txt"]
    set_time(folder / "a.txt", 1002)  # touched: read, but its document stays
    work = update(index, [folder])
    assert (work.read, work.documents) == (1, 0)


def test_a_deleted_file_is_gone(folder, index):
    write_files(folder, a="apple", b="banana")
    update(index, [folder])
    (folder / "a.txt").unlink()
    work = update(index, [folder])
    assert (work.removed, work.read) == (1, 0)
    assert files_with(index, "apple") == [] and files_with(index, "banana") == ["b.txt"]
    assert list(index.files()) == [str(folder / "b.txt")] and is_sound(index)


def test_moved_and_renamed_files_are_found_where_they_are(folder, index):
    write_files(folder, a="apple", b="banana", **{"sub/c": "cherry"})
    update(index, [folder])
    (folder / "a.txt").rename(folder / "renamed.txt")
    (folder / "sub").rename(folder / "moved")
    work = update(index, [folder])
    assert (work.removed, work.read, work.unchanged) == (2, 2, 1)
    assert files_with(index, "apple") == ["renamed.txt"]
    (document,) = search(index, parsed("cherry")).documents
    assert document.path == str(folder / "moved" / "c.txt")
    fresh = Index(None)
    update(fresh, [folder])
    assert contents(fresh) == contents(index)


def test_unchanged_files_are_not_read_again(folder, index, monkeypatch):
    write_files(folder, a="apple", b="banana", c="\0\1\2\3" * 50)
    update(index, [folder])
    read = reads_of(monkeypatch)
    work = update(index, [folder])
    assert read == [] and (work.unchanged, work.read) == (3, 0)
    write_files(folder, b="banana bread")
    update(index, [folder])
    assert read == ["b.txt"]


def test_files_that_cannot_be_read_are_tried_again_when_they_change(folder, index, monkeypatch):
    write_files(folder, a="\0\1\2\3" * 50, b="banana")
    read = reads_of(monkeypatch)
    for _ in range(2):
        assert update(index, [folder]).unread == {"binary": 1}
    assert read.count("a.txt") == 1 and index.files()[str(folder / "a.txt")].unread == "binary"
    write_files(folder, a="apple")
    assert update(index, [folder]).unread == {}
    assert files_with(index, "apple") == ["a.txt"]
    assert index.files()[str(folder / "a.txt")].unread == ""
    write_files(folder, a="\0\1\2\3" * 60)
    assert update(index, [folder]).unread == {"binary": 1}
    assert files_with(index, "apple") == [] and is_sound(index)


@pytest.mark.parametrize("reason", ["no permission", "no reader", "not a file"])
def test_a_reason_that_can_pass_is_tried_again_each_time(folder, index, monkeypatch, reason):
    """New rights and a new package do not change a file."""
    write_files(folder, a="apple")
    real = indexing.texts_of

    def fails(path, *rest):
        raise indexing.Unread(reason)
        yield

    monkeypatch.setattr(indexing, "texts_of", fails)
    assert update(index, [folder]).unread == {reason: 1}
    assert update(index, [folder]).unread == {reason: 1}
    monkeypatch.setattr(indexing, "texts_of", real)
    assert update(index, [folder]).unread == {} and files_with(index, "apple") == ["a.txt"]


def test_a_file_that_vanishes_before_it_is_read(folder, index, monkeypatch):
    write_files(folder, a="apple", b="banana")
    real = indexing.texts_of

    def vanishing(path, *rest):
        if path.name == "a.txt":
            path.unlink(missing_ok=True)
        return real(path, *rest)

    monkeypatch.setattr(indexing, "texts_of", vanishing)
    work = update(index, [folder])
    assert work.unread == {"not a file": 1} and work.read == 2
    assert files_with(index, "banana") == ["b.txt"]
    assert update(index, [folder]).removed == 1
    assert list(index.files()) == [str(folder / "b.txt")]


def test_a_folder_that_is_not_there_keeps_its_documents(tmp_path, index):
    for name in ("disk", "disk2", "home"):
        (tmp_path / name).mkdir()
        write_files(tmp_path / name, a=f"apple {name}")
    roots = [tmp_path / name for name in ("disk", "disk2", "home")]
    update(index, roots)
    (tmp_path / "disk").rename(tmp_path / "away")
    (tmp_path / "disk2" / "a.txt").unlink()  # its name only begins like the one that is away
    work = update(index, roots)
    assert work.missing == [str(tmp_path / "disk")] and work.removed == 1
    paths = sorted(document.path for document in search(index, parsed("apple")).documents)
    assert paths == [str(tmp_path / "disk" / "a.txt"), str(tmp_path / "home" / "a.txt")]
    (tmp_path / "away").rename(tmp_path / "disk")
    work = update(index, roots)
    assert (work.missing, work.unchanged, work.read) == ([], 2, 0)
    update(index, roots[2:])  # a folder that is no root any more is removed
    assert list(index.files()) == [str(tmp_path / "home" / "a.txt")]


def test_a_folder_that_may_not_be_read_keeps_its_documents(folder, index, monkeypatch):
    inner = folder / "inner"
    inner.mkdir()
    (inner / "hidden-away.txt").write_text("marmalade")
    (folder / "other.txt").write_text("porcelain")
    update(index, [folder])
    real = os.scandir

    def closed(path):
        if str(path) == str(inner):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", closed)
    (folder / "other.txt").unlink()
    work = update(index, [folder])
    assert work.closed == [str(inner)] and work.removed == 1
    assert str(inner / "hidden-away.txt") in index.files()
    monkeypatch.undo()
    (inner / "hidden-away.txt").unlink()
    update(index, [folder])
    assert str(inner / "hidden-away.txt") not in index.files()


def test_a_root_that_is_a_file(tmp_path, index):
    """If it is deleted, it is gone. If its folder is gone as well, as of a disk, it stays."""
    disk = tmp_path / "disk"
    disk.mkdir()
    file = disk / "a.txt"
    file.write_text("marmalade")
    update(index, [file])
    disk.rename(tmp_path / "away")
    work = update(index, [file])
    assert work.missing == [str(file)] and work.removed == 0 and str(file) in index.files()
    (tmp_path / "away").rename(disk)
    file.unlink()
    work = update(index, [file])
    assert work.missing == [] and work.removed == 1 and not index.files()


def test_messages_of_a_mailbox_come_and_go_one_by_one(folder, index):
    box = folder / "inbox.mbox"
    box.write_text(mailbox("report", "invoice"))
    work = update(index, [folder])
    assert (work.read, work.documents) == (1, 2)
    assert files_with(index, "report") == files_with(index, "invoice") == ["inbox.mbox"]
    box.write_text(mailbox("report", "parcel"))
    set_time(box, 1000)
    assert update(index, [folder]).documents == 1
    assert files_with(index, "invoice") == [] and files_with(index, "parcel") == ["inbox.mbox"]
    box.unlink()
    assert update(index, [folder]).removed == 1 and index.statistics().documents == 0


def test_what_a_gitignore_names_is_left_out_and_removed(folder, index):
    write_files(folder, a="apple", draft="apple draft")
    update(index, [folder])
    assert files_with(index, "draft") == ["draft.txt"]
    (folder / ".gitignore").write_text("draft*\n")
    work = update(index, [folder])
    assert work.removed == 1 and work.left_out["ignored"] == 1
    assert files_with(index, "draft") == []
    assert update(index, [folder], everything=True).read == 2  # .gitignore itself as well
    assert "draft.txt" in files_with(index, "draft")


def test_one_file_is_brought_up_to_date(folder, index):
    write_files(folder, a="apple", b="banana")
    update(index, [folder])
    write_files(folder, a="cherry tart")
    found = find(folder / "a.txt", [folder])
    assert found is not None and update_file(index, found).documents == 1
    assert files_with(index, "cherry") == ["a.txt"]
    assert update(index, [folder]).unchanged == 2
    (folder / "a.txt").unlink()
    read_changed(index, [folder], {str(folder / "a.txt")})
    assert files_with(index, "cherry") == []


def test_folders_are_stored_by_their_full_names(folder, monkeypatch):
    (folder / "notes").mkdir()
    (folder / "link").symlink_to(folder / "notes")
    monkeypatch.chdir(folder)
    assert absolute(["notes", str(folder / "link")]) == [folder / "notes"] * 2
    with pytest.raises(Mistake, match="there is no file or folder nothing"):
        absolute(["nothing"])


# --- interruptions ---


def test_an_interrupted_update_keeps_what_was_told(folder, index, monkeypatch):
    monkeypatch.setattr(indexing.time, "monotonic", iter(range(10**6)).__next__)
    monkeypatch.setattr(indexing, "SECONDS", 3.5)  # calls of the clock: three files are a batch
    write_files(folder, **{f"f{i}": f"apple number{i}" for i in range(10)})

    def interrupted(work):
        if work.read >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(index, [folder], tell=interrupted)
    assert 6 <= len(index.files()) < 10
    assert len(files_with(index, "apple")) == len(index.files()) == index.statistics().documents
    work = update(index, [folder])
    assert work.read == 10 - work.unchanged and work.unchanged >= 6
    fresh = Index(None)
    update(fresh, [folder])
    assert contents(fresh) == contents(index) and is_sound(index)


def test_an_interruption_while_a_file_is_read_loses_its_batch_only(folder, index, monkeypatch):
    write_files(folder, a="apple")
    update(index, [folder])
    write_files(folder, b="banana", c="cherry")
    real = indexing.texts_of

    def interrupted(path, *rest):
        if path.name == "c.txt":
            raise KeyboardInterrupt
        return real(path, *rest)

    monkeypatch.setattr(indexing, "texts_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        update(index, [folder])
    assert files_with(index, "apple") == ["a.txt"] and files_with(index, "banana") == []
    assert is_sound(index) and index.frequencies("banana").sum() == 0.0


UPDATING = """
    import sys
    from pathlib import Path
    from foltr.device import indexing
    from foltr.device.index import Index
    indexing.SECONDS = 0.02
    index = Index(Path(sys.argv[1]))
    print("ready", flush=True)

    def tell(work):
        print("a batch", flush=True)
        if "stops" in sys.argv:
            sys.argv.remove("stops")
            sys.stdin.readline()

    indexing.update(index, [Path(sys.argv[2])], tell=tell)
    print("done", flush=True)
"""


def updating(path, folder, stops=False):
    """A process that updates an index, and stops after the first batch if it is asked to."""
    code = textwrap.dedent(UPDATING)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), str(folder), "stops" if stops else ""],
        stdin=subprocess.PIPE if stops else None,
        stdout=subprocess.PIPE,
        text=True,
    )


def many_files(folder, seed=0, many=300):
    draws = random.Random(seed)
    words = [f"word{i}" for i in range(200)]
    for i in range(many):
        body = " ".join(draws.choices(words, k=400))
        (folder / f"{i}.html").write_text(f"<title>Page {i}</title><h1>Head {i}</h1><p>{body}")


def test_a_killed_update_goes_on_where_it_was(tmp_path, folder):
    """kill -9 at random moments, files changed and removed between."""
    many_files(folder)
    path, draws, killed = tmp_path / "index.db", random.Random(5), 0
    for turn in range(6):
        process = updating(path, folder)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for _ in range(draws.randrange(8)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.stdout.close()
        index = Index(path)
        assert is_sound(index)
        assert index.statistics().documents == len(index.files())
        index.close()
        (folder / f"{turn}.html").unlink()
        (folder / f"{turn + 100}.html").write_text(f"<title>New</title>turn{turn}")
    assert killed
    index, fresh = Index(path), Index(None)
    work = update(index, [folder])
    update(fresh, [folder])
    assert work.files == index.statistics().documents == 294
    assert contents(fresh) == contents(index) and is_sound(index)
    index.close()


def test_another_process_reads_while_one_writes(tmp_path, folder):
    many_files(folder)
    path = tmp_path / "index.db"
    reader = Index(path)
    process = updating(path, folder, stops=True)
    assert process.stdin is not None and process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "a batch\n"]
    seen = [reader.statistics().documents]
    assert 0 < seen[0] < 300
    with process.stdin as line:
        line.write("go on\n")
    while process.poll() is None:
        found = search(reader, parsed("word1 word2"))
        assert len(found.documents) == len(found.forward) == len(found.features)
        assert all(document.title.startswith("Page") for document in found.documents)
        seen.append(reader.statistics().documents)
    assert process.stdout.read().endswith("a batch\ndone\n")
    process.stdout.close()
    assert seen == sorted(seen)
    assert reader.statistics().documents == 300 and len(files_with(reader, "word1")) > 50
    reader.close()


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, folder):
    index = Index(tmp_path / "index.db")
    write_files(folder, a="apple pie", b="banana")
    update(index, [folder])
    (pages,) = index._db.execute("pragma page_count").fetchone()
    index._db.execute(f"pragma max_page_count = {pages + 20}")
    many_files(folder)
    with pytest.raises(Unusable, match=r"index\.db cannot be used \(.*full.*\): free some space"):
        update(index, [folder])
    assert files_with(index, "apple") == ["a.txt"] and files_with(index, "page") == []
    assert is_sound(index)
    index._db.execute("pragma max_page_count = 1000000")  # space has been freed
    assert update(index, [folder]).read == 300
    assert len(files_with(index, "word1")) > 50
    fresh = Index(None)
    update(fresh, [folder])
    assert contents(fresh) == contents(index)
    index.close()
