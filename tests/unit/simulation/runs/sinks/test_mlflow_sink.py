"""What MLflow has of a run: by MLflow itself where it is installed, and by a small stand-in that
refuses what MLflow refuses."""

import sys
import textwrap

import pytest

from foltr.core.errors import Mistake
from foltr.experiment import Experiment
from foltr.simulation.runs.sinks import log as feeding
from foltr.simulation.runs.sinks.sink import tag

SMALL = Experiment(data="Synthetic(queries=40)", clients=4, rounds=7, evaluate_every=3)
FAKE = {
    "mlflow/__init__.py": "",
    "mlflow/exceptions.py": "class MlflowException(Exception): pass",
    "mlflow/entities.py": """
        from collections import namedtuple
        Metric = namedtuple("Metric", "key value timestamp step")
        Param = namedtuple("Param", "key value")
    """,
    "mlflow/tracking.py": """
        import re
        from types import SimpleNamespace as Space
        STORES = {}

        class MlflowClient:
            def __init__(self, tracking_uri):
                assert tracking_uri.startswith("file:///")
                self.runs = STORES.setdefault(tracking_uri, {})

            def get_experiment_by_name(self, name):
                return None

            def create_experiment(self, name):
                return name

            def search_runs(self, experiments, filter_string):
                name = re.fullmatch(r"tags.`foltr.run` = '(.+)'", filter_string)[1]
                return [run for run in self.runs.values() if run.info.run_name == name]

            def create_run(self, experiment, tags, run_name):
                run = Space(info=Space(run_id=str(len(self.runs)), run_name=run_name,
                                       status="RUNNING"),
                            data=Space(metrics={}, params={}), history=[])
                return self.runs.setdefault(run.info.run_id, run)

            def get_run(self, run_id):
                return self.runs[run_id]

            def get_metric_history(self, run_id, key):
                return [each for each in self.runs[run_id].history if each.key == key]

            def log_batch(self, run_id, metrics=(), params=()):
                assert len(metrics) <= 1000 and len(params) <= 100
                for each in metrics:
                    assert re.fullmatch(r"[\\w\\-. :/]+", each.key), each.key
                    self.runs[run_id].history.append(each)
                    self.runs[run_id].data.metrics[each.key] = each.value
                self.runs[run_id].data.params.update((p.key, p.value) for p in params)

            def update_run(self, run_id, status):
                self.runs[run_id].info.status = status

            def set_terminated(self, run_id, status):
                self.runs[run_id].info.status = status
    """,
}


@pytest.fixture(params=[pytest.param("true", marks=pytest.mark.tools), "stand-in"])
def client(request, tmp_path, monkeypatch):
    """A function that gives a client of the store in a folder."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # so that it is as before afterwards
    monkeypatch.setattr(feeding, "SECONDS", 0.0)
    monkeypatch.setattr("foltr.simulation.runs.train.CHECKPOINT_SECONDS", 0.0)
    if request.param == "stand-in":
        for name, text in FAKE.items():
            (tmp_path / "fake" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "fake" / name).write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(tmp_path / "fake")

    def of(out):
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=(out / "mlruns").resolve().as_uri())

    yield of
    if request.param == "stand-in":
        for name in [name for name in sys.modules if name.partition(".")[0] == "mlflow"]:
            del sys.modules[name]


def logged(client, name):
    (run,) = client.search_runs(_experiment(client), f"tags.`foltr.run` = '{name}'")
    return run


def _experiment(client):
    found = client.get_experiment_by_name("foltr")
    return [found.experiment_id if found else "foltr"]


def assert_whole(client, result):
    run = logged(client, result.folder.name)
    for group, names in (("offline", result.metrics.offline), ("online", result.metrics.online)):
        for name in names:
            rounds, values = result.curve(name)
            history = client.get_metric_history(run.info.run_id, tag(group, name))
            assert [each.step for each in history] == rounds.tolist()
            assert [each.value for each in history] == values.tolist()
    assert run.data.metrics["final/ndcg_at_10"] == result.final["ndcg@10"]
    assert run.data.params["clients"] == "4" and run.data.params["data.queries"] == "40"
    assert run.info.status == "FINISHED"


def test_a_run_is_whole_also_if_it_was_stopped(client, tmp_path):
    def stop(progress):
        if progress.t >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SMALL.run(tmp_path, watch=stop, log="mlflow")
    (folder,) = tmp_path.glob("Synthetic-*")
    assert logged(client(tmp_path), folder.name).info.status == "KILLED"
    result = SMALL.run(tmp_path, log="mlflow")
    assert_whole(client(tmp_path), result)
    assert SMALL.run(tmp_path, log="mlflow").found
    assert_whole(client(tmp_path), result)


def test_a_finished_run_is_logged_as_a_whole(client, tmp_path):
    SMALL.run(tmp_path)
    assert_whole(client(tmp_path), SMALL.run(tmp_path, log="mlflow"))


@pytest.mark.tools
def test_a_store_that_cannot_be_opened_is_a_mistake(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense://here")
    with pytest.raises(Mistake, match="the log cannot be opened: mlflow: "):
        SMALL.run(tmp_path, log="mlflow")
