"""A state folder, and a backup, as a foltr wrote them that kept a server's state in many files."""

import hashlib
import io
import json
import tarfile

import numpy as np
from small_server import small_server

from foltr.core.federation import State
from foltr.deployment.keys.roster_file import read_roster
from foltr.deployment.protocol.frames import write_ids
from foltr.deployment.settings import read_server
from foltr.experiment.user_files import Code
from foltr.simulation.runs.columns import Metrics
from foltr.simulation.runs.folder import Folder

FORGOTTEN = {
    "nodes": ["b"], "pending": ["a"], "since": 3, "wished": ["a"], "clients": [3],
    "pending_clients": [], "untold_clients": [3], "compared": 4,
    "plan": {"nodes": ["a"], "first": 5, "stored": [0, 2], "sessions": 1, "erased": False,
             "clients": []},
}  # fmt: skip


def old_server(folder, done=5):
    """The settings file, and the state folder after some rounds."""
    file, state = small_server(folder, done=0)
    state.close()
    for each in state.folder.iterdir():
        each.unlink()
    path, (agreed, _) = state.folder, read_server(file, Code())
    (path / "models").mkdir()
    (path / "agreement.json").write_text(agreed.text + "\n")
    (path / "seed.txt").write_text("77\n")
    seats = read_roster(folder / "roster.toml").seats
    listed = [[seat.name, seat.clients, seat.key.decode()] for seat in seats]
    (path / "roster.json").write_text(json.dumps(listed) + "\n")
    for t in range(done + 1):
        np.save(path / "models" / f"{t:08d}.npy", np.full(3, t - 1.0))
    memory = tuple(np.full(2, float(i)) for i in range(12))
    now = State(np.full(3, done - 1.0), memory, (np.ones(1),), done, 2)
    Folder(path).checkpoint(now, np.empty((1, 0), np.float32), Metrics(), (0.0, 0.0))
    rounds = [json.dumps({"round": t, "answered": 4}) for t in range(done)]
    (path / "rounds.jsonl").write_text("\n".join([*rounds, '{"round": 9, "ans']))
    (path / "asked.jsonl").write_text('{"round": 4, "clients": [0, 3]}\n')
    stored = [json.dumps({"round": t, "clients": [0, 1, t % 3]}) for t in range(0, done, 2)]
    (path / "took_part.jsonl").write_text("\n".join(stored) + "\n")
    (path / "contributed.ids").write_bytes(write_ids(np.arange(3)))
    (path / "forgotten.json").write_text(json.dumps(FORGOTTEN) + "\n")
    (path / "backups.jsonl").write_text(json.dumps({"path": str(file), "round": 1, "made": "x"}))
    return file, path


def old_backup(file, folder, out):
    """A backup of format 1."""
    agreed, _ = read_server(file, Code())
    names = ("backups.jsonl", "restored.json", "state.db", "running.lock")
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in names]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    files["roster.toml"] = (file.parent / "roster.toml").read_bytes()
    listed = {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    }
    about = {
        "federation": agreed.id.hex(), "round": 5, "made": "2026-11-01T00:00:00+00:00",
        "foltr": "0.1", "format": 1, "files": listed,
    }  # fmt: skip
    manifest = json.dumps(about).encode()
    digest = hashlib.sha256(manifest).hexdigest().encode()
    with tarfile.open(out, "w") as archive:
        for name, content in {
            "manifest.json": manifest, "manifest.sha256": digest + b"\n", **files,
        }.items():  # fmt: skip
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out
