"""What Weights & Biases would send of a run: read from its offline files where it is installed,
and by a small stand-in."""

import json
import struct
import sys
import textwrap
import time

import pytest

from foltr.experiment import Experiment
from foltr.simulation.runs.sinks import log as feeding
from foltr.simulation.runs.sinks.sink import tag

SMALL = Experiment(data="Synthetic(queries=40)", clients=4, rounds=7, evaluate_every=3)
BLOCK = 32768  # bytes of an offline file, whose records begin anew in each
FAKE = """
    import json
    from pathlib import Path

    def Settings(**settings):
        return settings

    class init:
        step = 0

        def __init__(self, project, id, name, dir, config, resume, reinit, settings):
            assert project == "foltr" and resume == "allow" and reinit == "create_new"
            self.rows, self.summary, self.config, self.id = [], {}, config, id
            self.number = len(list(Path(dir).glob("*.run")))
            self.file = Path(dir) / f"{self.number}.run"

        def log(self, values, step):
            assert all(type(value) is float for value in values.values())
            assert not self.rows or step > self.rows[-1][0]
            self.rows.append((step, values))

        def finish(self):
            kept = {"id": self.id, "rows": self.rows, "config": self.config,
                    "summary": self.summary}
            self.file.write_text(json.dumps(kept))
"""


@pytest.fixture(params=[pytest.param("true", marks=pytest.mark.tools), "stand-in"])
def read(request, tmp_path, monkeypatch):
    """A function that reads the logs in a folder, in the order in which they were begun."""
    monkeypatch.setattr(feeding, "SECONDS", 0.0)
    monkeypatch.setattr("foltr.simulation.runs.train.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    if request.param == "stand-in":
        (tmp_path / "fake").mkdir()
        (tmp_path / "fake" / "wandb.py").write_text(textwrap.dedent(FAKE))
        monkeypatch.syspath_prepend(tmp_path / "fake")
        yield lambda out: [json.loads(file.read_text()) for file in sorted(out.glob("*.run"))]
        sys.modules.pop("wandb", None)
        return
    yield lambda out: [_offline(file) for file in _in_order(out)]


def _in_order(out):
    files = list(out.glob("wandb/offline-run-*/*.wandb"))
    return sorted(files, key=lambda file: file.stat().st_mtime_ns)


def _offline(file):
    """A run from the file that `wandb sync` sends. A process of wandb's writes its end a moment
    after the run has finished."""
    from wandb.proto.wandb_internal_pb2 import Record

    for _ in range(300):
        records = [Record.FromString(content) for content in _records(file.read_bytes())]
        kinds = [record.WhichOneof("record_type") for record in records]
        if "exit" in kinds:
            break
        time.sleep(0.1)
    assert "exit" in kinds
    found = {"id": "", "rows": [], "config": {}, "summary": {}}
    for kind, record in zip(kinds, records, strict=True):
        if kind == "run":
            found["id"] = record.run.run_id
            found["config"] = {i.key: json.loads(i.value_json) for i in record.run.config.update}
        elif kind == "history":
            values = {
                "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            own = {name: value for name, value in values.items() if name[0] != "_"}
            found["rows"].append([record.history.step.num, own])
        elif kind == "summary":
            for item in record.summary.update:
                name = "/".join(item.nested_key) or item.key
                found["summary"][name] = json.loads(item.value_json)
    return found


def _records(content):
    at, parts = 7, b""
    while at + 7 <= len(content):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", content, at)
        if at + 7 + size > len(content):
            return  # being written
        parts += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def assert_whole(log, result):
    assert log["id"] == result.folder.name
    assert [t for t, _ in log["rows"]] == list(range(8))
    for group, names in (("offline", result.metrics.offline), ("online", result.metrics.online)):
        for name in names:
            rounds, values = result.curve(name)
            found = [
                (t, row[tag(group, name)]) for t, row in log["rows"] if tag(group, name) in row
            ]
            assert found == list(zip(rounds.tolist(), values.tolist(), strict=True))
    assert log["summary"]["final/ndcg_at_10"] == result.final["ndcg@10"]
    assert log["config"]["clients"] == 4 and log["config"]["data.queries"] == 40


def test_a_run_is_whole_also_if_it_was_stopped(read, tmp_path):
    def stop(progress):
        if progress.t >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SMALL.run(tmp_path, watch=stop, log="wandb")
    (first,) = read(tmp_path)
    assert [t for t, _ in first["rows"]] == list(range(len(first["rows"]))) and first["rows"]
    result = SMALL.run(tmp_path, log="wandb")
    _, second = read(tmp_path)
    assert_whole(second, result)


def test_a_finished_run_is_logged_as_a_whole(read, tmp_path):
    SMALL.run(tmp_path)
    result = SMALL.run(tmp_path, log="wandb")
    (log,) = read(tmp_path)
    assert_whole(log, result)
