import pytest


@pytest.fixture
def in_a_run(monkeypatch):
    """Flower's messages are made within a run of this process."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
