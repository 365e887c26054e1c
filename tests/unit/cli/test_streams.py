"""Output that nobody takes: closed streams, readers that end early, and Ctrl-C at once."""

import os
import shlex
import subprocess
import sys

import pytest

RUN = [sys.executable, "-m", "foltr", "run", "--data", "Synthetic(queries=30)"]


def in_shell(command, tmp_path, **more):
    run = shlex.join([*RUN, "--clients", "2", "--rounds", "2", "--out", str(tmp_path)])
    words = ["bash", "-c", f"{run} {command}"]
    return subprocess.run(words, capture_output=True, text=True, **more)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(closed, tmp_path):
    done = in_shell(closed, tmp_path)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert len(list(tmp_path.glob("*/result.json"))) == 1
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))


def test_a_reader_that_ends_early_is_no_error(tmp_path):
    done = in_shell("--json | head -c 5; echo ${PIPESTATUS[0]}", tmp_path)
    assert "Traceback" not in done.stderr and done.stdout.endswith("0\n")


def test_a_file_never_takes_the_place_of_a_closed_stream():
    code = (
        "import os, sys\nfrom foltr.cli.app import open_closed_streams\nopen_closed_streams()\n"
        "file = open(os.devnull)\nassert file.fileno() > 2 and sys.stdout.fileno() == 1\n"
        "print('lost')"
    )
    command = ["bash", "-c", f"{shlex.join([sys.executable, '-c', code])} >&-"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "", done.stderr


def test_ctrl_c_while_the_command_line_is_imported_is_a_message(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", "from foltr.__main__ import main; main()"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 130 and "Traceback" not in done.stderr
    assert done.stderr.strip().startswith("foltr: stopped")
