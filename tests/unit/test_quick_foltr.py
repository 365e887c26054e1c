"""Commands of tests are forked from a process that has imported foltr, unless they must not be."""

import subprocess
import sys

import pytest

from quick_foltr import python_file, quick_foltr

SAYS_WHETHER_IT_WAS_FORKED = "import sys; print('foltr' in sys.modules)"


@pytest.mark.parametrize(
    ("variables", "forked"), [({}, True), ({"FOLTR_CACHE": "elsewhere"}, False)]
)
def test_a_file_is_run_by_a_fork_if_what_imports_read_is_the_same(
    tmp_path, monkeypatch, variables, forked
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "file.py"
    file.write_text(SAYS_WHETHER_IT_WAS_FORKED)
    done = subprocess.run([*python_file(), file], capture_output=True, text=True)
    assert done.stdout == f"{forked}\n" and done.returncode == 0, done.stderr


def test_words_folder_streams_and_exit_code_are_those_of_the_command(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "import os, sys\nprint(sys.argv[1:], os.getcwd(), sys.stdin.read())\nsys.exit('in vain')"
    )
    done = subprocess.run(
        [*python_file(), file, "a b", "ø"],
        cwd=tmp_path,
        input="told",
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"['a b', 'ø'] {tmp_path} told\n"
    assert (done.returncode, done.stderr) == (1, "in vain\n")
    wrong = subprocess.run(
        [*quick_foltr(), "run", "--rounds", "-1"], capture_output=True, text=True
    )
    plain = subprocess.run(
        [sys.executable, "-m", "foltr", "run", "--rounds", "-1"], capture_output=True, text=True
    )
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, plain.stdout, plain.stderr)
