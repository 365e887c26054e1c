"""What TensorBoard reads in a run's folder, by its own reader where it is installed."""

import struct

import pytest

from foltr.experiment import Experiment
from foltr.simulation.runs.sinks import log as feeding
from foltr.simulation.runs.sinks.sink import tag

SMALL = Experiment(data="Synthetic(queries=40)", clients=4, rounds=7, evaluate_every=3)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(feeding, "SECONDS", 0.0)
    monkeypatch.setattr("foltr.simulation.runs.train.CHECKPOINT_SECONDS", 0.0)


def events(folder):
    """All events of a folder, read by the rules of the format, and as a reader keeps them: what
    was written before a restart is forgotten from its round on."""
    from tensorboardX.crc32c import crc32c
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    def masked(content):
        crc = crc32c(content)
        return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF

    kept = []
    for file in sorted(folder.glob("*tfevents*")):
        content = file.read_bytes()
        while len(content) >= 16:
            (size,) = struct.unpack("<Q", content[:8])
            data, rest = content[12 : 12 + size], content[12 + size :]
            if len(rest) < 4:
                break  # cut off
            assert struct.unpack("<I", content[8:12])[0] == masked(content[:8])
            assert struct.unpack("<I", rest[:4])[0] == masked(data)
            event, content = Event.FromString(data), rest[4:]
            if event.session_log.status == SessionLog.START:
                kept = [each for each in kept if each.step < event.step]
            kept.append(event)
    return kept


def scalars(folder):
    """tag -> rounds and values."""
    found = {}
    for event in events(folder):
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def assert_whole(folder, result):
    found = scalars(folder)
    for group, names in (("offline", result.metrics.offline), ("online", result.metrics.online)):
        for name in names:
            rounds, values = result.curve(name)
            assert [t for t, _ in found[tag(group, name)]] == rounds.tolist()
            assert [v for _, v in found[tag(group, name)]] == pytest.approx(values, rel=1e-6)
    ((t, value),) = found["final/ndcg_at_10"]
    assert (t, value) == (7, pytest.approx(result.final["ndcg@10"], rel=1e-6))


def by_tensorboard(folder):
    import tensorboard.backend.event_processing.event_accumulator as accumulator

    read = accumulator.EventAccumulator(str(folder), {"scalars": 0, "tensors": 0})
    read.Reload()
    return read


def stopped_at(t):
    def stop(progress):
        if progress.t >= t:
            raise KeyboardInterrupt

    return stop


def test_a_run_is_whole_with_its_config(tmp_path):
    result = SMALL.run(tmp_path, log="tensorboard")
    assert_whole(result.folder, result)
    first = events(result.folder)[0]
    assert first.file_version == "brain.Event:2"
    texts = [v for e in events(result.folder) for v in e.summary.value if "config" in v.tag]
    assert "clients = 4" in texts[0].tensor.string_val[0].decode()


@pytest.mark.parametrize("lost", [0, 3, 150])
def test_a_run_that_was_stopped_goes_on_also_after_a_torn_write(tmp_path, lost):
    with pytest.raises(KeyboardInterrupt):
        SMALL.run(tmp_path, watch=stopped_at(4), log="tensorboard")
    (file,) = tmp_path.glob("*/*tfevents*")
    file.write_bytes(file.read_bytes()[: -lost or None])
    result = SMALL.run(tmp_path, log="tensorboard")
    assert len(list(result.folder.glob("*tfevents*"))) == 2
    assert_whole(result.folder, result)


def test_a_finished_log_stays_as_it_is(tmp_path):
    result = SMALL.run(tmp_path, log="tensorboard")
    (file,) = result.folder.glob("*tfevents*")
    before = file.read_bytes()
    assert SMALL.run(tmp_path, log="tensorboard").found
    assert [each.read_bytes() for each in result.folder.glob("*tfevents*")] == [before]


@pytest.mark.tools
def test_tensorboard_itself_reads_a_run_that_was_stopped(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        SMALL.run(tmp_path, watch=stopped_at(4), log="tensorboard")
    result = SMALL.run(tmp_path, log="tensorboard")
    read = by_tensorboard(result.folder)
    for name in result.metrics.online:
        rounds, values = result.curve(name)
        found = read.Scalars(tag("online", name))
        assert [each.step for each in found] == rounds.tolist()
        assert [each.value for each in found] == pytest.approx(values, rel=1e-6)
    config = read.Tensors("config/text_summary")[0].tensor_proto.string_val[0]
    assert b"clients = 4" in config
