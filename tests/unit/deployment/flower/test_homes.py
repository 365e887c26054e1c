"""A node that was killed is known again by its folder's word; a copied key is not."""

import pytest

from foltr.deployment.flower.doors import LONGEST, Homes


def test_the_last_word_is_known_also_after_a_restart(tmp_path):
    homes = Homes(tmp_path / "homes.json")
    assert not homes.is_home(7, b"word") and not homes.is_home(7, b"")
    homes.know(7, b"word")
    for known in (homes, Homes(tmp_path / "homes.json")):
        assert known.is_home(7, b"word")
        assert not known.is_home(7, b"copy") and not known.is_home(8, b"word")
    assert b"word" not in (tmp_path / "homes.json").read_bytes()
    homes.know(7, b"another")
    assert homes.is_home(7, b"another") and not homes.is_home(7, b"word")


def test_no_word_and_an_endless_one_are_not_kept(tmp_path):
    homes = Homes(tmp_path / "homes.json")
    homes.know(7, b"")
    homes.know(7, b"x" * (LONGEST + 1))
    assert not homes.is_home(7, b"") and not homes.is_home(7, b"x" * (LONGEST + 1))


@pytest.mark.parametrize("content", ["", "[1", "[]", "3", '{"7": 3}'])
def test_a_file_that_is_damaged_is_begun_anew(tmp_path, content):
    (tmp_path / "homes.json").write_text(content)
    homes = Homes(tmp_path / "homes.json")
    assert not homes.is_home(7, b"word")
    homes.know(7, b"word")
    assert Homes(tmp_path / "homes.json").is_home(7, b"word")


def test_a_full_disk_is_no_failure(tmp_path):
    homes = Homes(tmp_path / "missing" / "homes.json")
    homes.know(7, b"word")
    assert homes.is_home(7, b"word")
