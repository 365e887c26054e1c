"""The commands in the files of deploy/, read out of them and run on this machine: a folder for
each volume, a free port for each port."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from foltr.deployment.local import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
STATE, SETTINGS = "/var/lib/foltr", "/etc/foltr"


def instructions(file=DEPLOY / "Containerfile"):
    """The instructions of the last stage: word -> the texts after it."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.M).replace("\\\n", " ")
    found = {}
    for line in text.rpartition("\nFROM ")[2].splitlines()[1:]:
        word, _, rest = line.partition(" ")
        if word:
            found.setdefault(word, []).append(" ".join(rest.split()))
    return found


def image():
    """What the image runs: environment, working folder, entry point and health check."""
    of = instructions()
    environment = dict(word.split("=", 1) for text in of["ENV"] for word in shlex.split(text))
    entry = json.loads(of["ENTRYPOINT"][0])
    health = json.loads(of["HEALTHCHECK"][0].partition(" CMD ")[2])
    return environment, of["WORKDIR"][0], entry, health


def services():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def unit(name):
    """The lines of a unit's [Service]: word -> the last text after it; Environment as a dict."""
    found, environment = {}, {}
    for line in (DEPLOY / name).read_text().partition("[Service]")[2].splitlines():
        word, equals, text = line.partition("=")
        if word == "Environment":
            environment.update([text.split("=", 1)])
        elif equals and not line.startswith("#"):
            found[word] = text
    return {**found, "Environment": environment}


class Machine:
    """This machine, in place of the containers or of systemd."""

    def __init__(self, folder, rounds):
        self.folder, self.running = folder, {}
        self.port, self.status, self.door, self.door_status = (free_port() for _ in range(4))
        self.rounds = rounds
        programs = folder / "bin"
        programs.mkdir()
        (programs / "foltr").write_text(f'#!/bin/sh\nexec {sys.executable} -m foltr "$@"\n')
        (programs / "foltr").chmod(0o755)

    def volume(self, name):
        place = self.folder / name
        place.mkdir(exist_ok=True, mode=0o700)
        return place

    def mapped(self, text, places):
        for path, place in places.items():
            text = text.replace(path, str(place))
        return text

    def settings(self, places, trained):
        """The settings files, for the folders and ports of this machine, and few rounds."""
        own = self.volume(f"settings-{places[STATE].name}")
        here = {"0.0.0.0:8443": f"127.0.0.1:{self.port}", "server:8443": f"localhost:{self.port}"}
        here |= {"0.0.0.0:8444": f"127.0.0.1:{self.status}", "training_rounds = 80": trained}
        here |= {
            "0.0.0.0:8445": f"127.0.0.1:{self.door}",
            "gateway:8445": f"localhost:{self.door}",
        }
        here |= {"0.0.0.0:8446": f"127.0.0.1:{self.door_status}"}
        here |= {"\nrounds = 100": f"\nrounds = {self.rounds}"}
        for file in (DEPLOY / "settings").glob("*.toml"):
            text = self.mapped(file.read_text(), places)
            for word, instead in here.items():
                text = text.replace(word, instead)
            (own / file.name).write_text(text)
        return {**places, SETTINGS: own}

    def environment(self, given, places):
        mapped = {name: self.mapped(value, places) for name, value in given.items()}
        mapped.pop("FOLTR_CACHE", None)  # compiled code of this machine's other tests is used
        paths = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        return {**os.environ, **mapped, "PATH": paths}

    def places(self, service, trained):
        """Where the paths in a container are on this machine."""
        found = {}
        for volume in service["volumes"]:
            name, path = volume.split(":")[:2]
            if not name.startswith("."):
                found[path] = self.volume(name)
        return self.settings(found, trained)

    def compose(self, name, trained):
        """Run or start a service of compose.yaml."""
        service, (given, workdir, entry, _) = services()[name], image()
        places = self.places(service, trained)
        words = [self.mapped(w, places) for w in service.get("entrypoint", entry)]
        words += [self.mapped(word, places) for word in service["command"]]
        given = {**given, **service.get("environment", {})}
        environment = self.environment(given, places)
        cwd = self.mapped(workdir, places)
        if "entrypoint" in service:  # once
            subprocess.run(words, cwd=cwd, env=environment, check=True)
        else:
            self.start(name, words, cwd, environment)

    def systemd(self, unit_name, instance, volume, trained):
        """Start the command of a unit."""
        of = unit(unit_name)
        places = self.settings({STATE: self.volume(volume)}, trained)
        words = [self.mapped(w.replace("%i", instance), places) for w in of["ExecStart"].split()]
        assert words[0] == "/opt/foltr/bin/foltr"
        words[0] = str(self.folder / "bin" / "foltr")
        cwd = self.mapped(of["WorkingDirectory"], places)
        self.start(instance, words, cwd, self.environment(of["Environment"], places))

    def start(self, name, words, cwd, environment):
        words = [shutil.which(words[0], path=environment["PATH"]), *words[1:]]
        with open(self.log(name), "wb") as log:
            self.running[name] = subprocess.Popen(
                words, cwd=cwd, env=environment, stdout=log, stderr=subprocess.DEVNULL
            )

    def log(self, name):
        return self.folder / f"{name}.log"

    def is_healthy(self, name, trained):
        """What the image's health check says of a service."""
        service, (given, workdir, _, health) = services()[name], image()
        places = self.places(service, trained)
        environment = self.environment({**given, **service["environment"]}, places)
        words = [str(self.folder / "bin" / health[0]), *health[1:]]
        cwd = self.mapped(workdir, places)
        done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
        return done.returncode == 0, done.stdout + done.stderr

    def wait(self, ready, what, seconds=60.0):
        until = time.monotonic() + seconds
        while not ready():
            told = {name: self.log(name).read_text()[-2000:] for name in self.running}
            assert time.monotonic() < until, f"no {what}: {told}"
            time.sleep(0.2)

    def stop(self):
        """SIGTERM to all that runs; the exit codes."""
        codes = {}
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.running.items():
            codes[name] = process.wait(30)
        self.running.clear()
        return codes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.kill()
            process.wait()
