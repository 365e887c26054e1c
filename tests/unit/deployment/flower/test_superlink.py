"""Settings of a SuperLink that cannot work."""

import subprocess
import sys
from pathlib import Path

import pytest

from foltr.core.errors import Mistake
from foltr.deployment.flower.superlink import Doors, SuperLink, bound, secret


def test_tls_or_on_this_machine_only(tmp_path):
    with pytest.raises(Mistake, match="needs a certificate"):
        Doors(str(tmp_path)).check()
    Doors(str(tmp_path), insecure=True).check()
    with pytest.raises(Mistake, match="without TLS"):
        Doors(str(tmp_path), host="0.0.0.0", insecure=True).check()
    with pytest.raises(Mistake, match="it is needed for TLS"):
        Doors(str(tmp_path), certificate=str(tmp_path / "none"), key="none").check()


def test_a_secret_is_its_owners_and_stays(tmp_path):
    file = tmp_path / "secret"
    made = secret(file)
    assert secret(file) == made and len(made) == 64
    file.write_text("")  # a full disk, or a kill in the middle
    with pytest.raises(Mistake, match="is damaged"):
        secret(file)
    file.write_text(made)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_port_that_is_taken():
    with bound("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(Mistake, match=f"cannot listen on 127.0.0.1:{port}"):
            bound("127.0.0.1", port)


def test_what_was_not_started_is_not_alive(tmp_path):
    link = SuperLink(Doors(str(tmp_path), insecure=True))
    assert not link.alive
    link.stop()


def test_the_public_door_leaves_files_for_the_others():
    text = """
import resource
from foltr.deployment.flower.superlink import CONNECTIONS, OWN_FILES, crowd
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
print(crowd() == min(CONNECTIONS, hard - OWN_FILES), end=" ")
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= crowd() + OWN_FILES, end=" ")
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
print(crowd())
"""
    made = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["True", "True", "100"]


def test_flower_may_be_installed_in_a_folder_with_a_space(monkeypatch):
    utils = pytest.importorskip("flwr.supercore.state.alembic.utils", reason="needs foltr[deploy]")
    from sqlalchemy import create_engine

    folder = Path("/a folder, with words/alembic")
    monkeypatch.setattr(utils, "build_alembic_config", utils.build_alembic_config)
    monkeypatch.setattr(utils, "ALEMBIC_DIR", folder)
    from foltr.deployment.flower import internals as flower_internals

    flower_internals.find_migrations_in_any_folder()
    config = utils.build_alembic_config(create_engine("sqlite://"))
    assert config.get_version_locations_list() == [str(folder / "versions")]
