"""Runs the tests with the oldest versions that pyproject.toml declares.

    python .ci/oldest.py [--folder DIR] [--python PYTHON] [--install-only] [WORDS FOR PYTEST ...]

Every lower bound of the dependencies and of all extras but `deploy`, whose pins differ, becomes an
exact version; what they in turn depend on is as new as it may be, as for a user who installs foltr
today. Tests that need `deploy` are skipped. The environment is made below --folder (a temporary
folder by default, removed afterwards). Without words for pytest the whole suite runs, on two
processes."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
LEFT_OUT = {"deploy"}
LOWER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)\s*(\[[^]]*\])?\s*>=\s*(?P<version>[0-9][^,;\s]*)")


def oldest(project: dict) -> dict[str, str]:
    """The exact version of each package: its lower bound, the highest if it has several."""
    lists = [project["dependencies"]]
    lists += [
        needs for name, needs in project["optional-dependencies"].items() if name not in LEFT_OUT
    ]
    found: dict[str, str] = {}
    for requirement in (each for needs in lists for each in needs):
        if requirement.startswith(f"{project['name']}["):
            continue
        match = LOWER.match(requirement)
        if match is None:
            raise SystemExit(f"{requirement!r} in pyproject.toml has no lower bound")
        name, version = match["name"].lower(), match["version"]
        found[name] = max(found.get(name, version), version, key=as_numbers)
    return found


def needed_by_tests(project: dict) -> list[str]:
    """What the extra `dev` requires, without the extras that are left out."""
    found: list[str] = []
    for requirement in project["optional-dependencies"]["dev"]:
        match = re.fullmatch(rf"{project['name']}\[(.*)\]", requirement)
        if match is None:
            found.append(requirement)
        else:
            extras = [each for each in match[1].split(",") if each not in LEFT_OUT]
            found += ["-e", f"{HERE}[{','.join(extras)}]"]
    return found


def as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--install-only", action="store_true")
    known, words = parser.parse_known_args()
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    versions = oldest(project)
    print("oldest versions:", ", ".join(f"{name} {version}" for name, version in versions.items()))
    with tempfile.TemporaryDirectory(prefix="foltr-oldest-") as temporary:
        folder = known.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        pins = folder / "oldest.txt"
        pins.write_text("".join(f"{name}=={version}\n" for name, version in versions.items()))
        python = folder / "venv" / "bin" / "python"
        if not python.exists():
            subprocess.run([known.python, "-m", "venv", folder / "venv"], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--constraint", pins, *needed_by_tests(project)],
            check=True,
        )  # fmt: skip
        if known.install_only:
            return 0
        path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
        return subprocess.run(
            [python, "-m", "pytest", "--without-deploy", *(words or ["-q", "-n", "2"])],
            cwd=HERE,
            env={**os.environ, "PATH": path},
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
