"""An import of a module that has moved since foltr 0.2 names the new place, in one line."""

import importlib
import subprocess
import sys

import pytest

from foltr.core.advice import MOVED, moved
from foltr.core.errors import Mistake
from foltr.experiment.user_files import use


@pytest.mark.parametrize("old", sorted(MOVED))
def test_the_new_place_exists_and_the_old_one_is_refused(old):
    importlib.import_module(f"foltr.{MOVED[old]}")
    with pytest.raises(ModuleNotFoundError) as refused:
        importlib.import_module(f"foltr.{old}")
    assert str(refused.value) == f"foltr.{old} has moved: import foltr.{MOVED[old]}"


def test_a_module_below_a_moved_package_is_named_too():
    assert moved("foltr.world.dataset") == "foltr.core.world.dataset"
    assert moved("foltr.runs.config") == "foltr.simulation.runs.config"
    assert moved("foltr.simulation.runs.account") == "foltr.privacy.guarantee"
    assert moved("foltr.kindz") == "" == moved("foltr.kindsof")


def test_a_users_file_is_told_in_one_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from foltr.core import Array\nfrom foltr.kinds import Memoryless\n")
    with pytest.raises(Mistake) as refused:
        use(file)
    assert "foltr.kinds has moved: import foltr.core.kinds (mine.py, line 2)" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from foltr.errors import Mistake", "foltr.errors has moved: import foltr.core.errors"),
        ("import foltr.nothing", "No module named 'foltr.nothing'"),
        ("from foltr.core import Coort", "cannot import name 'Coort' from 'foltr.core'"),
    ],
)
def test_python_itself_says_it_in_a_script(line, expected):
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
    assert done.returncode == 1 and expected in done.stderr.splitlines()[-1]
