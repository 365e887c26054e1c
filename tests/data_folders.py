"""Each test gets its own cache and its own user's data folder; compiled code stays where it
was."""

from pathlib import Path

import pytest

import foltr.kernels.letor  # noqa: F401  decides on the folder of compiled code before FOLTR_CACHE is moved


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("FOLTR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FOLTR_DATA", raising=False)
    monkeypatch.setattr(
        "foltr.core.system.files.user_data_path", lambda name: tmp_path / "user" / name
    )


@pytest.fixture
def shared(real_data, monkeypatch):
    """The real data sets, found as a user's would be."""
    monkeypatch.setenv("FOLTR_DATA", str(real_data))
    return real_data


@pytest.fixture
def write(tmp_path):
    def written(text: str | bytes, name: str = "train.txt") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return written
