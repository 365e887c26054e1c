"""The files of deploy/ are well-formed, and hold no secret. `tests/loopback/test_deploy_files.py`
runs what they run."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


def test_the_image_is_pinned_and_runs_as_a_user():
    text = (DEPLOY / "Containerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.M)
    assert len(bases) == 2 and all(re.search(r":\d+\.\d+\.\d+-slim", base) for base in bases)
    last = text.rpartition("\nFROM ")[2]
    assert last.index("\nUSER foltr") < last.index("\nENTRYPOINT") and "HEALTHCHECK" in last
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.M)
    assert {word for line in copied for word in line.split()} == {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src",
    }


def test_what_is_sent_to_the_engine_is_what_the_image_copies():
    ignored = [
        (DEPLOY.parent / name).read_text() for name in (".dockerignore", ".containerignore")
    ]
    assert ignored[0] == ignored[1] and "\n*\n" in ignored[0]


def test_the_settings_share_one_agreement():
    agreed = []
    for file in sorted((DEPLOY / "settings").glob("*.toml")):
        content = tomllib.loads(file.read_text())
        agreed.append({name: value for name, value in content.items() if type(value) is not dict})
    assert len(agreed) >= 3 and all(each == agreed[0] for each in agreed)


def test_every_service_names_a_settings_file_and_a_declared_volume():
    import yaml

    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name, service in content["services"].items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert source in content["volumes"] or (DEPLOY / source).is_dir(), name
        if "profiles" not in service and "entrypoint" not in service:
            file = service["environment"]["FOLTR_SETTINGS"]
            assert service["command"][1] == file
            assert (DEPLOY / "settings" / Path(file).name).is_file()


@pytest.mark.tools
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_unit(unit, tmp_path):
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/foltr/bin/foltr", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr.strip(), done.stderr
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(copy)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout  # exposure at most 2.0 of 10
