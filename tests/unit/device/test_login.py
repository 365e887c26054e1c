"""Starting the search page at login."""

import configparser
import plistlib
import shlex
import sys
from pathlib import Path

import pytest

from foltr.core.errors import Mistake
from foltr.device import running as login


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_desktop_starts_the_page_of_this_folder(at_home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    file = login.start_at_login(at_home / "my device")
    assert file == at_home / "config" / "autostart" / "foltr-device.desktop"
    entry = configparser.RawConfigParser()
    entry.read(file)
    assert shlex.split(entry["Desktop Entry"]["Exec"]) == [
        sys.executable, "-m", "foltr", "device", "search", "--no-open", "--home",
        str(at_home / "my device"),
    ]  # fmt: skip


def test_a_mac_starts_it_too(at_home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    file = login.start_at_login(at_home / "a & b")
    content = plistlib.loads(file.read_bytes())
    assert content["ProgramArguments"][-1] == str(at_home / "a & b") and content["RunAtLoad"]


def test_it_is_taken_back(at_home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    login.start_at_login(at_home)
    assert login.stop_at_login() and not login.login_file().exists()
    assert not login.stop_at_login()


def test_a_name_that_would_be_another_command_is_refused(at_home, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(Mistake, match="choose a folder with a plain name"):
        login.start_at_login(Path('/x" rm -rf "'))
    assert not login.login_file().exists()
