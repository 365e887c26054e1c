import pytest


@pytest.fixture
def in_a_run(monkeypatch):
    """Flower's messages are made within a run of this process."""
    TaskIdentity = pytest.importorskip("flwr.supercore.task_identity").TaskIdentity
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
