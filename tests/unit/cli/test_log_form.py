"""`--log`: how processes that run for long write what they do."""

import json

import pytest
import typer
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.cli.tools import logged
from foltr.core.errors import Mistake

pytest.importorskip("flwr", reason="needs foltr[deploy]")


@pytest.mark.parametrize("command", ["serve", "node"])
def test_an_error_that_ends_the_process(command, tmp_path, monkeypatch):
    words = [command, str(tmp_path / "no.toml")]
    plain = CliRunner().invoke(app, words)
    assert plain.exit_code == 2 and plain.stderr.startswith("foltr: cannot read")
    made = [CliRunner().invoke(app, [*words, "--log", "json"])]
    monkeypatch.setenv("FOLTR_LOG", "json")
    made.append(CliRunner().invoke(app, words))
    for done in made:
        (line,) = done.stderr.splitlines()
        said = json.loads(line)
        assert done.exit_code == 2 and done.stdout == ""
        assert (said["level"], said["event"]) == ("error", "ended")
        assert said["process"] == {"serve": "server", "node": "node"}[command]
        assert "no.toml" in said["text"]


def test_another_form(tmp_path):
    done = CliRunner().invoke(app, ["node", str(tmp_path / "no.toml"), "--log", "xml"])
    assert done.exit_code == 2 and "--log 'xml': choose text or json" in done.stderr


def test_lines(capsys):
    with logged("json", "node") as tell:
        tell("one")
    assert json.loads(capsys.readouterr().out)["text"] == "one"
    with logged("text", "node") as tell:
        tell("one")
    assert capsys.readouterr().out.endswith(" one\n")
    with pytest.raises(Mistake), logged("text", "node"):
        raise Mistake("two")
    with pytest.raises(typer.Exit), logged("json", "node"):
        raise OSError(28, "No space left on device", "x")
    assert json.loads(capsys.readouterr().err)["text"] == "x: No space left on device"
