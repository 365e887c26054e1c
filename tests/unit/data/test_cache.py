"""The cache: never stale, never broken, shared by processes."""

import errno
import json
import multiprocessing
import os
from types import SimpleNamespace

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.core.system.files import cache_folder
from foltr.data import cache, files
from foltr.data import text_files as stamps
from foltr.data.letor import Reading
from foltr.kernels import compile_cache

TEXT = "1 qid:1 1:5 2:4\n0 qid:1 1:3 2:9\n2 qid:2 1:1 2:1\n"


def load(path, normalize=False):
    return files.load(path, Reading(), normalize)


def folders():
    return sorted(p for p in cache_folder("data").iterdir() if p.name != "stamps")


def test_a_second_load_does_not_parse(write, monkeypatch):
    path = write(TEXT)
    first = load(path)
    monkeypatch.setattr(files, "read", lambda *_: pytest.fail("parsed again"))
    second = load(path)
    assert isinstance(second.storage, np.memmap) and second.content == first.content
    assert (
        second.labels.tolist() == [[1, 0, 2]]
        and second.grades == 3
        and second.document_ids is None
    )


def test_options_and_contents_have_their_own_folders_but_paths_do_not(write):
    same = load(write(TEXT)).content, load(write(TEXT, "b.txt")).content
    assert same[0] == same[1]
    other = load(write(TEXT), normalize=True)
    assert other.content != same[0] and len(folders()) == 2
    np.testing.assert_array_equal(other.features, [[1, 0], [0, 1], [0, 0]])


def test_a_same_size_edit_with_restored_times_is_seen(write, monkeypatch):
    # trust every stamp: only the stamp itself can save us
    monkeypatch.setattr(stamps, "RACY", -(10**18))
    path = write(TEXT)
    assert load(path).features[0, 0] == 5
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # until the file system's clock ticks
        path.write_text(TEXT.replace("1:5", "1:6"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size and path.stat().st_mtime_ns == before.st_mtime_ns
    assert load(path).features[0, 0] == 6


@pytest.mark.parametrize(("age", "trusted"), [(stamps.RACY, False), (stamps.RACY + 1, True)])
def test_the_stamp_of_a_file_just_written_is_not_trusted(write, monkeypatch, age, trusted):
    path = write(TEXT)
    now = path.stat().st_ctime_ns + age
    monkeypatch.setattr(stamps, "time", SimpleNamespace(time_ns=lambda: now))
    stamps.content(path)
    assert (cache_folder("data") / "stamps").exists() == trusted


def test_the_stamp_of_a_file_at_rest_saves_hashing(write, monkeypatch):
    path = write(TEXT)
    monkeypatch.setattr(stamps, "RACY", -1)
    content = stamps.content(path)
    monkeypatch.setattr(stamps, "pieces", lambda *_: pytest.fail("hashed again"))
    assert stamps.content(path) == content


def test_a_file_that_changes_while_it_is_read_is_refused(write, monkeypatch):
    path = write(TEXT)
    genuine = files.read

    def meddled(*args):
        yield from genuine(*args)
        path.write_text(TEXT.replace("1:5", "1:6"))

    monkeypatch.setattr(files, "read", meddled)
    with pytest.raises(Mistake, match="changed while it was read"):
        load(path)
    assert folders() == []


@pytest.mark.parametrize("damage", ["truncated", "missing", "no meta", "bad meta", "bad header"])
def test_a_broken_folder_is_made_again(write, damage):
    path = write(TEXT)
    load(path)
    (folder,) = folders()
    file = folder / ("meta.json" if "meta" in damage else "storage.npy")
    whole = file.read_bytes()
    if damage in ("missing", "no meta"):
        file.unlink()
    else:
        file.write_bytes(
            {"truncated": whole[:-4], "bad meta": b'{"sizes', "bad header": b"x" * len(whole)}[
                damage
            ]
        )
    assert load(path).features.tolist() == [[5, 4], [3, 9], [1, 1]]
    assert folders() == [folder] and file.read_bytes() == whole


def test_what_a_killed_writer_left_is_removed_later(write):
    left = cache_folder("data") / f"{cache.ASIDE}killed"
    left.mkdir(parents=True)
    (left / "storage.npy").write_bytes(b"half")
    load(write(TEXT))
    assert left.exists()  # it may still be at work
    for path in (left, left / "storage.npy"):
        os.utime(path, (1, 1))
    load(write(TEXT), normalize=True)
    assert not left.exists()


def test_a_failed_write_leaves_nothing(write):
    with pytest.raises(Mistake, match="line 2"):
        load(write("1 qid:1 1:5\n0 qid:1 1:x\n"))
    assert folders() == []


def _load_many(path, compiled, start, results):
    here = os.environ["FOLTR_CACHE"]
    os.environ["FOLTR_CACHE"] = compiled  # no need to compile again
    import foltr.kernels.letor  # noqa: F401

    os.environ["FOLTR_CACHE"] = here
    start.wait(240)  # until both have imported foltr
    for i in range(5):
        data = files.load(path, Reading(features=2), bool(i % 2))
        results.put((i % 2, data.content, np.asarray(data.features).tolist()))


def test_two_processes_may_load_at_once(write):
    path = write(TEXT)
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    compiled = str(compile_cache().parent.parent if compile_cache() else cache_folder("data"))
    workers = [
        context.Process(target=_load_many, args=(path, compiled, start, results)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=240) for _ in range(10)]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len({json.dumps(item) for item in found}) == 2
    assert len(folders()) == 2


def test_the_loser_of_a_race_takes_the_winner_s_folder():
    def slow(folder):
        cache.kept({"race": 1}, quick)
        np.save(folder / "numbers.npy", np.arange(3))
        return {"by": "slow"}

    def quick(folder):
        np.save(folder / "numbers.npy", np.arange(3))
        return {"by": "quick"}

    assert cache.kept({"race": 1}, slow).facts == {"by": "quick"}
    assert len(folders()) == 1


def test_a_full_disk_is_a_mistake_that_names_the_folder_and_the_way_out(write, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache.RowWriter, "append", full)
    with pytest.raises(Mistake, match=r"No space left.*FOLTR_CACHE") as caught:
        load(write(TEXT))
    assert str(cache_folder("data")) in str(caught.value) and folders() == []


def test_a_folder_that_cannot_be_made_is_a_mistake(write, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLTR_CACHE", str(write(TEXT, "a file")))
    with pytest.raises(Mistake, match="FOLTR_CACHE"):
        load(write(TEXT))


def test_rows_grow_into_an_ordinary_npy_file(tmp_path):
    with cache.RowWriter(tmp_path / "rows.npy", 3, np.float32) as rows:
        rows.append(np.ones((2, 3), np.float32))
        rows.append(np.zeros((1, 3), np.float32))
    np.testing.assert_array_equal(
        np.load(tmp_path / "rows.npy"), [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    )


def made(number):
    def write(folder):
        np.save(folder / "numbers.npy", np.full(1000, number))
        return {"number": number}

    return cache.kept_lately("made", 3, {"number": number}, write)


def test_data_that_is_quickly_made_again_is_kept_for_a_while():
    for turn, number in enumerate((1, 2, 3, 1, 4)):
        found = made(number)
        assert found.arrays["numbers"].tolist() == [number] * 1000
        used_now = max(cache_folder("made").iterdir(), key=lambda f: f.stat().st_mtime)
        os.utime(used_now, (turn, turn))  # long ago, in this order
    kept = [json.loads((f / "meta.json").read_text()) for f in cache_folder("made").iterdir()]
    assert sorted(each["facts"]["number"] for each in kept) == [1, 3, 4]  # 2 was used least lately
    assert isinstance(made(1).arrays["numbers"], np.memmap)


def test_damage_that_keeps_the_size_is_noticed():
    made(1)
    (file,) = cache_folder("made").glob("*/numbers.npy")
    content = bytearray(file.read_bytes())
    content[-900:] = bytes(900)
    file.write_bytes(content)
    assert made(1).arrays["numbers"].tolist() == [1] * 1000
    assert file.read_bytes() != bytes(content)


def test_nothing_is_kept_where_the_cache_cannot_be_written(monkeypatch):
    cache_folder("made").parent.mkdir(parents=True, exist_ok=True)
    cache_folder("made").write_text("a file where a folder should be")
    assert made(1) is None
