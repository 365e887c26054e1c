"""An import of a module that has moved since foltr 0.2 names the new place, in one line."""

import importlib
import subprocess
import sys

import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.moved import MODULES, PACKAGES
from foltr.experiment.user_files import use


@pytest.mark.parametrize("old", sorted(MODULES))
def test_a_module_is_refused_and_its_new_place_exists(old):
    importlib.import_module(f"foltr.{MODULES[old]}")
    with pytest.raises(ModuleNotFoundError) as refused:
        importlib.import_module(f"foltr.{old}")
    assert str(refused.value) == f"foltr.{old} has moved: import foltr.{MODULES[old]}"


@pytest.mark.parametrize("old", sorted(PACKAGES))
def test_names_of_a_package_are_refused_and_its_new_place_exists(old):
    importlib.import_module(f"foltr.{PACKAGES[old]}")
    for line in (f"from foltr.{old} import Anything", f"import foltr.{old} as old\nold.anything"):
        with pytest.raises(ModuleNotFoundError) as refused:
            exec(line)
        assert str(refused.value) == f"foltr.{old} has moved: import foltr.{PACKAGES[old]}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "from foltr.world.dataset import Dataset",
            "foltr.world.dataset has moved: import foltr.core.world.dataset",
        ),
        (
            "from foltr.audits.audit import audit",
            "foltr.audits.audit has moved: import foltr.simulation.audits.audit",
        ),
        (
            "import foltr.federated.doors",
            "foltr.federated.doors has moved: docs/design.md says where things are",
        ),
        ("import foltr.nothing", "No module named 'foltr.nothing'"),
        ("from foltr.core import Coort", "cannot import name 'Coort' from 'foltr.core'"),
    ],
)
def test_python_itself_says_it_in_a_script(line, expected):
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
    assert done.returncode == 1 and expected in done.stderr.splitlines()[-1]


def test_a_users_file_is_told_in_one_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from foltr.core import Array\nfrom foltr.kinds import Memoryless\n")
    with pytest.raises(Mistake) as refused:
        use(file)
    assert "foltr.kinds has moved: import foltr.core.kinds (mine.py, line 2)" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_attributes_that_have_moved_are_no_attributes():
    assert not hasattr(foltr, "kinds") and not hasattr(foltr, "nonsense")
    with pytest.raises(AttributeError, match=r"foltr\.kinds has moved: import foltr\.core\.kinds"):
        foltr.kinds  # noqa: B018
