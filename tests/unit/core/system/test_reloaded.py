"""Values that follow their files, also when these are replaced one after the other."""

import os

import pytest

from foltr.core.errors import Mistake
from foltr.core.system.files import write_whole
from foltr.core.system.log import Reloaded


@pytest.fixture
def pair(tmp_path):
    """Two files that fit if they hold the same; and what was told."""
    files, told = (tmp_path / "a", tmp_path / "b"), []
    for file in files:
        file.write_text("1")

    def read():
        first, second = (file.read_text() for file in files)
        if first != second:
            raise Mistake(f"{first} and {second} do not fit")
        return first

    return files, Reloaded(files, read, told.append), told


def test_a_value_is_read_again_only_when_its_files_change(pair):
    (a, b), value, told = pair
    assert value.value == "1" and not value.refresh()
    write_whole(a, "2")
    write_whole(b, "2")
    assert value.refresh() and value.value == "2" and not value.refresh() and not told


def test_files_that_do_not_fit_for_a_moment_are_not_told(pair):
    (a, b), value, told = pair
    write_whole(a, "2")
    assert not value.refresh() and value.value == "1"
    write_whole(b, "2")
    assert value.refresh() and value.value == "2" and not told


def test_files_that_do_not_fit_are_told_once_and_the_earlier_value_stays(pair):
    (a, b), value, told = pair
    write_whole(a, "2")
    assert [value.refresh() for _ in range(5)] == [False] * 5 and value.value == "1"
    (line,) = told
    assert "2 and 1 do not fit" in line and "what was read before stays in use" in line
    assert line.level == "warning"
    write_whole(b, "3")
    value.refresh()
    value.refresh()
    assert len(told) == 2
    write_whole(a, "3")
    assert value.refresh() and value.value == "3"


def test_a_file_that_is_gone(pair):
    (a, _), value, told = pair
    os.unlink(a)
    assert not value.refresh() and not value.refresh() and value.value == "1" and len(told) == 1
    a.write_text("1")
    assert value.refresh() and value.value == "1"


def test_a_change_of_the_same_size_is_noticed(pair):
    (a, b), value, _ = pair
    for file in (a, b):
        write_whole(file, "4")
    assert value.refresh() and value.value == "4"


def test_the_first_reading_must_succeed(tmp_path):
    with pytest.raises(OSError):
        Reloaded((tmp_path / "x",), (tmp_path / "x").read_text, print)


def test_without_files_nothing_changes():
    value = Reloaded((), lambda: 1, print)
    assert value.value == 1 and not value.refresh()
