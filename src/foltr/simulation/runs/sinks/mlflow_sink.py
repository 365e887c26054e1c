"""MLflow: a run of the experiment `foltr`, at MLFLOW_TRACKING_URI or in the folder `mlruns` beside
the runs."""

from __future__ import annotations

import os
import time

from foltr.simulation.runs.sinks.sink import FINAL, About, Row

EXPERIMENT, TAG = "foltr", "foltr.run"
URI, ALLOW = "MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE"
AT_ONCE = 1000  # metrics in one call; MLflow takes no more
PARAMS = 100  # in one call
LONGEST = 500  # characters of a parameter that every version takes


class MlflowSink:
    """A run of foltr is one run of MLflow, known by the name of its folder: who continues it
    continues its log."""

    def __init__(self, about: About) -> None:
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        uri = os.environ.get(URI)
        if not uri:
            os.environ.setdefault(ALLOW, "true")  # a current MLflow opens a folder only with it
            uri = (about.folder.parent / "mlruns").resolve().as_uri()
        self._client = MlflowClient(tracking_uri=uri)
        number = self._experiment()
        found = self._client.search_runs([number], f"tags.`{TAG}` = '{about.name}'")
        self.first, self.complete = 0, False
        self._last: dict[str, int] = {}  # the last round of each metric in the log
        if found:
            self._run = found[0].info.run_id
            for name in found[0].data.metrics:
                history = self._client.get_metric_history(self._run, name)
                self._last[name] = max(each.step for each in history)
            self.complete = any(name.startswith(FINAL) for name in self._last)
            self.first = 1 + min(self._last.values(), default=-1)
            self._client.update_run(self._run, status="RUNNING")
            return
        tags = {TAG: about.name}
        self._run = self._client.create_run(number, tags=tags, run_name=about.name).info.run_id
        params = [Param(name, str(value)[:LONGEST]) for name, value in about.fields.items()]
        for i in range(0, len(params), PARAMS):
            self._client.log_batch(self._run, params=params[i : i + PARAMS])

    def _experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            try:
                return str(self._client.create_experiment(EXPERIMENT))
            except MlflowException:  # another process was faster
                found = self._client.get_experiment_by_name(EXPERIMENT)
                if found is None:
                    raise
        return str(found.experiment_id)

    def write(self, rows: list[Row]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new = [
            (name, value, now, t)
            for t, values in rows
            for name, value in values.items()
            if t > self._last.get(name, -1)
        ]
        metrics = [Metric(*each) for each in new]
        for i in range(0, len(metrics), AT_ONCE):
            self._client.log_batch(self._run, metrics=metrics[i : i + AT_ONCE])

    def finish(self, rounds: int, final: dict[str, float]) -> None:
        self.write([(rounds, final)])
        self.complete = True

    def close(self) -> None:
        self._client.set_terminated(self._run, "FINISHED" if self.complete else "KILLED")
