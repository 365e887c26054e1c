"""Private files are their owner's alone, and never overwritten."""

import os
import stat
from pathlib import Path

import pytest

from foltr.core.errors import Mistake
from foltr.core.system import private
from foltr.core.system.private import make_folder, private_content

pytestmark = pytest.mark.skipif(os.name == "nt", reason="not on this system: modes of files")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_do_not_depend_on_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        make_folder(tmp_path / "a", {"key": b"secret"}, {"card": b"public"})
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == 0o700 and mode(tmp_path / "a/key") == 0o600
    assert private_content(tmp_path / "a/key") == b"secret"
    assert (tmp_path / "a/card").read_bytes() == b"public"


def test_a_private_file_is_private_from_its_first_byte(tmp_path, monkeypatch):
    seen = []

    def fsync(file):
        seen.append((stat.S_IMODE(os.fstat(file).st_mode), os.fstat(file).st_size))

    monkeypatch.setattr(private.os, "fsync", fsync)
    opened = []
    real = os.open
    monkeypatch.setattr(private.os, "open", lambda *a, **k: opened.append(a[1:]) or real(*a, **k))
    make_folder(tmp_path / "a", {"key": b"secret"}, {})
    ((flags, asked),) = [each for each in opened if len(each) == 2 and each[0] & os.O_CREAT]
    assert asked == 0o600 and flags & os.O_EXCL and seen == [(0o600, 6)]


def test_nothing_is_overwritten(tmp_path):
    make_folder(tmp_path / "a", {"key": b"first"}, {})
    with pytest.raises(Mistake, match="never overwritten: choose another folder"):
        make_folder(tmp_path / "a", {"key": b"second"}, {})
    assert private_content(tmp_path / "a/key") == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_comes_meanwhile_is_not_overwritten(tmp_path, monkeypatch):
    real = os.rename

    def slow(one, other):
        Path(other).mkdir()
        (Path(other) / "key").write_bytes(b"theirs")
        real(one, other)

    monkeypatch.setattr(private.os, "rename", slow)
    with pytest.raises(Mistake, match="cannot write"):
        make_folder(tmp_path / "a", {"key": b"ours"}, {})
    assert (tmp_path / "a/key").read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]  # and no key is left aside


def test_an_empty_folder_may_be_used_but_no_link_or_file(tmp_path):
    (tmp_path / "empty").mkdir()
    make_folder(tmp_path / "empty", {"key": b"k"}, {})
    assert mode(tmp_path / "empty") == 0o700
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(Mistake, match="already exists"):
            make_folder(tmp_path / name, {"key": b"k"}, {})


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path, bits):
    file = tmp_path / "key"
    file.write_bytes(b"secret")
    file.chmod(bits)
    with pytest.raises(Mistake, match=f"chmod 600 {file}") as refused:
        private_content(file)
    assert "secret" not in str(refused.value)
    file.chmod(0o400)
    assert private_content(file) == b"secret"


def test_what_is_no_private_file(tmp_path):
    with pytest.raises(Mistake, match="cannot read"):
        private_content(tmp_path / "nothing")
    with pytest.raises(Mistake, match="a folder"):
        private_content(tmp_path)
    (tmp_path / "large").write_bytes(bytes(private.LARGEST + 1))
    (tmp_path / "large").chmod(0o600)
    with pytest.raises(Mistake, match="no key"):
        private_content(tmp_path / "large")
