"""docs/deploying.md as written: its commands, in a folder for each machine."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from foltr import load_ranker
from foltr.deployment.local import free_port

pytestmark = pytest.mark.loopback
PAGE = Path(__file__).resolve().parents[2] / "docs" / "deploying.md"
BLOCK = re.compile(
    r"^<!-- not run: [^\n]*test_deploying[^\n]*-->\n"
    r'```(sh|toml) title="([^"]+)"\n(.*?)^```',
    re.M | re.S,
)


def letor(folder: Path) -> None:
    folder.mkdir(parents=True)
    draws, lines = np.random.default_rng(1), []
    for query in range(30):
        for _ in range(12):
            numbers = " ".join(f"{i}:{v:.4f}" for i, v in enumerate(draws.random(46), start=1))
            lines.append(f"{draws.integers(3)} qid:{query} {numbers}\n")
    (folder / "train.txt").write_text("".join(lines))


def test_the_page_works_as_written(tmp_path):
    port, status = free_port(), free_port()
    folders = {"on the server": tmp_path / "server", "on the node": tmp_path / "node"}
    for folder in folders.values():
        folder.mkdir()
    letor(folders["on the node"] / "data")
    own = {"server.toml": folders["on the server"], "node.toml": folders["on the node"]}
    here = {"server.example.org": "localhost", "0.0.0.0:8443": f"127.0.0.1:{port}"}
    here |= {":8443": f":{port}", "rounds = 100": "rounds = 4", "rounds = 80": "rounds = 3"}
    commands, started = [], []
    for language, title, code in BLOCK.findall(PAGE.read_text()):
        for word, instead in here.items():
            code = code.replace(word, instead)
        if language == "toml":
            if title == "server.toml":
                code += f'status = "127.0.0.1:{status}"\n'
            (own[title] / title).write_text(code)
        else:
            commands += [(folders[title], line) for line in code.splitlines()]
    assert len(commands) == 9  # and the tunnel is the tenth
    try:
        for folder, line in commands:
            words = line.replace("'", "").split()
            if words[0] == "python":
                continue  # installed
            if words[0] == "scp":
                copy(words, folder, folders)
                continue
            program = [sys.executable, "-m", *words]
            if words[1] in ("serve", "node"):
                with open(folder / "log.txt", "wb") as log:
                    started.append(subprocess.Popen(program, cwd=folder, stdout=log, stderr=log))
            else:
                subprocess.run(program, cwd=folder, check=True)
        until = time.monotonic() + 60
        while started[0].poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        told = (folders["on the server"] / "log.txt").read_text()
        assert started[0].poll() == 0 and "all 3 rounds are done" in told, told
        assert "4 of 4 clients answered" in told
        saved = load_ranker(folders["on the server"] / "server-state" / "ranker.json")
        assert saved.features == 46 and saved.params.any()
    finally:
        for process in started:
            process.terminate()
            process.wait(20)


def copy(words, folder, folders):
    """scp between the machines' folders."""
    server = folders["on the server"]

    def place(word):
        host, colon, path = word.partition(":")
        return (server if colon else folder) / (path if colon else host)

    source, target = map(place, words[1:])
    shutil.copy(source, target if target.suffix else target / source.name)
