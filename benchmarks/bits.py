"""Which experiments does a change alter? Makes the same runs with two versions of foltr, and
compares them bit by bit.

    python benchmarks/bits.py COMMIT [--new PATH_OR_COMMIT] [--keep DIR] [--jobs N]
    python benchmarks/bits.py --old-foltr PATH --new-foltr PATH

COMMIT is the older version; the newer one is the working tree of this checkout, or what --new
says. Each gets an environment, a copy of its sources and a cache (FOLTR_CACHE) of its own, and is
driven by the command line and by TOML files alone, so that nothing here depends on where things
are imported from. --old-foltr and --new-foltr are executables that are installed already. --keep
DIR keeps environments, compiled code and finished groups of runs there: the next call only makes
what is new (all runs of given executables: nobody knows what they run). --jobs is how many
processes run at a time, usually one of each version. On two quiet cores the first call takes five
minutes (most of it compiles), with --keep one after a change of the code half a minute, after a
change of a kernel two or three.

Of each run are compared its folder's name (its identity: would a finished run of before be
found?), its bits (the bytes of params.npy and metrics.csv, the numbers of result.json; times, and
numbers that only one version has, do not count), and what the privacy ledger guarantees against
whom (its guarantee, which is not one of its bits).

The rule: a run whose bits have changed must have another identity, and one whose bits are the same
must keep its own. Exit code 0 if that holds for every case, 1 if not or if a case crashed, 2 if
nothing could be compared. What a version refuses is told, and breaks no rule. The cases are in
`bits_cases.py`."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import bits_cases
from bits_cases import GROUPS, Fields, Group

HERE = Path(__file__).resolve().parents[1]
EXTRAS = "secure,privacy,baselines"
CASES = sum(len(group.cases) for group in GROUPS)
SHOWN = 5  # changed files and numbers of a case
STOP = threading.Event()  # set: what is under way is killed, and nothing is begun
LIVE: set[subprocess.Popen[str]] = set()


class Impossible(Exception):
    """There is nothing to compare; the message says why."""


def called(
    *command: str | Path, ctrl_c_after: float | None = None, **options: Any
) -> tuple[int, str, str]:
    """Exit code, output and errors of a command. A Ctrl-C in the terminal is ours alone: `stop`
    ends what it began."""
    if STOP.is_set():
        raise Impossible("stopped")
    options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        [str(word) for word in command], text=True, process_group=0, **options
    )
    LIVE.add(process)
    try:
        out, err = process.communicate(timeout=ctrl_c_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    LIVE.discard(process)
    if STOP.is_set():
        raise Impossible("stopped, so that what it left is worth nothing")
    return process.returncode, out, err


def must(*command: str | Path, **options: Any) -> str:
    code, out, err = called(*command, **options)
    if code:
        raise Impossible(f"{' '.join(map(str, command))} ended with {code}:\n{err or out}")
    return out


def stop() -> None:
    STOP.set()
    while LIVE:
        for process in tuple(LIVE):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.1)


def digest(*files: Path) -> str:
    told = repr([(str(file), file.read_bytes()) for file in files if file.is_file()])
    return blake2b(told.encode(), digest_size=16).hexdigest()


@dataclass
class Side:
    """One version of foltr, and where its runs lie."""

    folder: Path  # before or after
    source: str  # a commit, the folder of a working tree, or an executable
    is_executable: bool
    foltr: Path = Path()
    key: str = ""  # of its code and of the cases: runs of another key are no use

    @property
    def environment(self) -> dict[str, str]:
        """Its own cache, no data of the user's, and one thread for matrix products, whose bits may
        depend on them."""
        ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "FOLTR_DATA")
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        alone = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "MKL", "OMP")}
        return {**kept, **alone, "FOLTR_CACHE": str(self.folder / "cache")}

    def prepare(self) -> None:
        self.folder.mkdir(exist_ok=True)
        for part in (self.folder / "cache").glob("*"):
            # numba knows the sources of what it compiled; data are to be read anew
            if not any(part.rglob("*.nbi")):
                shutil.rmtree(part)
        if self.is_executable:
            # no run of before will do
            self.foltr, self.key = (Path(self.source).absolute(), f"{time.time_ns()}")
        else:
            checkout = self.copied()
            code = digest(checkout / "pyproject.toml", *sorted((checkout / "src").rglob("*")))
            self.install(checkout, f"{EXTRAS} {code}")
            self.key = f"{code} {digest(Path(bits_cases.__file__))}"
        must(self.foltr, "--version", env=self.environment)

    def copied(self) -> Path:
        """Its sources as they are now, in a folder of their own."""
        checkout, archive = self.folder / "checkout", self.folder / "checkout.tar"
        shutil.rmtree(checkout, ignore_errors=True)
        if Path(self.source).is_dir():
            listed = must(
                "git",
                "-C",
                self.source,
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            )
            for name in listed.split("\0"):
                if Path(self.source, name).is_file():  # not a removed one
                    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(Path(self.source, name), checkout / name)
        else:
            must("git", "-C", HERE, "archive", "--output", archive, self.source)
            shutil.unpack_archive(archive, checkout)
        return checkout

    def install(self, checkout: Path, what: str) -> None:
        """A marker says what the environment holds, and is not there while that changes."""
        venv = self.folder / f"venv-{platform.python_version()}"
        self.foltr, marker = venv / "bin" / "foltr", venv / "holds"
        held = marker.read_text() if marker.exists() else ""
        if held == what:
            return
        print(f"{self.folder.name}: installing {self.source}", file=sys.stderr)
        marker.unlink(missing_ok=True)
        if not held:
            for left in (venv, self.folder / "runs"):
                shutil.rmtree(left, ignore_errors=True)
            must(sys.executable, "-m", "venv", venv)
        pip = (
            venv / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        )
        must(*pip, f"{checkout}[{EXTRAS}]", env=self.environment)
        marker.write_text(what)


@dataclass(frozen=True)
class Outcome:
    """What became of a case: a run (its folder, named by its identity), or a message why there is
    none."""

    run: str = ""
    message: str = ""
    crashed: bool = False


@dataclass(frozen=True)
class Making:
    """One group with one side."""

    side: Side
    group: Group

    @property
    def folder(self) -> Path:
        return self.side.folder / "runs" / self.group.name

    def outcomes(self) -> dict[str, Outcome]:
        """By case; none if they are not all there, for they are written last."""
        file = self.folder / "made.json"
        made: Fields = json.loads(file.read_text()) if file.exists() else {}
        told = made["outcomes"] if made.get("key") == self.side.key else {}
        return {name: Outcome(**each) for name, each in told.items()}

    def make(self) -> None:
        if self.outcomes():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        outcomes = self.interrupted() if self.group.interrupted else self.swept()
        made = {
            "key": self.side.key,
            "outcomes": {name: asdict(outcome) for name, outcome in outcomes.items()},
        }
        unfinished = self.folder / "unfinished.json"
        unfinished.write_text(json.dumps(made, indent=1))
        unfinished.replace(self.folder / "made.json")

    def foltr(
        self, command: str, text: list[str], *more: str | Path, **options: Any
    ) -> tuple[int, str, str]:
        """`foltr sweep` or `foltr run`, from where the data are."""
        file = self.folder / f"{command}.toml"
        file.write_text("\n".join(text))
        words = (
            self.side.foltr,
            command,
            file,
            "--out",
            self.folder,
            "--engine",
            self.group.engine,
            "--quiet",
            *more,
        )
        return called(
            *words, env=self.side.environment, cwd=self.side.folder.parent / "data", **options
        )

    def swept(self) -> dict[str, Outcome]:
        """All in one process; what that has not made runs alone (if one experiment is refused, so
        is its sweep)."""
        text = toml(self.group.common)
        for name, fields in self.group.cases.items():
            text += ["[[sweep.method]]", *toml({"name": name, **fields})]
        self.foltr("sweep", text, "--jobs", "1")
        record = self.folder / "sweep.sweep.json"
        planned = json.loads(record.read_text())["runs"] if record.exists() else []
        runs = {each["method"]: self.folder / each["run"] for each in planned}
        whole = {
            name: Outcome(str(run)) for name, run in runs.items() if (run / "result.json").exists()
        }
        return {name: whole.get(name) or self.alone(name) for name in self.group.cases}

    def alone(self, name: str, *more: str | Path, **options: Any) -> Outcome:
        text = toml({**self.group.common, **self.group.cases[name]})
        code, out, err = self.foltr("run", text, "--json", *more, **options)
        if code == 0:
            return Outcome(json.loads(out.splitlines()[-1])["run"])
        told = ([line for line in err.splitlines() if line.strip()] or [f"exit code {code}"])[-1]
        return Outcome(
            "", told.replace(f"{self.folder}/", "").removeprefix("foltr: "), crashed=code != 2
        )

    def interrupted(self) -> dict[str, Outcome]:
        """Each is stopped by Ctrl-C when it is under way, then made by the same command."""
        outcomes = {}
        for name in self.group.cases:
            self.alone(name, "--rounds", "1", "--out", self.folder / "compiled")
            for seconds in (2.0, 3.0, 4.0, 6.0):
                if not any(self.folder.glob("*/checkpoint.npz")):
                    self.alone(name, ctrl_c_after=seconds)
            stopped = any(self.folder.glob("*/checkpoint.npz"))
            made, remark = (
                self.alone(name),
                "" if stopped else "could not be stopped on its way, so it was not resumed",
            )
            outcomes[name] = replace(made, message=made.message or remark)
        return outcomes


def toml(fields: Fields) -> list[str]:
    return [f"{name} = {json.dumps(value)}" for name, value in fields.items()]


@dataclass(frozen=True)
class Verdict:
    case: str
    identity: str
    bits: str
    guarantee: str
    details: dict[str, list[str]]
    violation: str = ""


def judged(case: str, old: Outcome, new: Outcome) -> Verdict:
    said = {"before": old, "after": new}
    details = {
        f"{who} {'crashed' if o.crashed else 'said'}": [o.message]
        for who, o in said.items()
        if o.message
    }
    if not (old.run and new.run):
        crashed = old.crashed or new.crashed
        who = "both" if not (old.run or new.run) else "after" if old.run else "before"
        violation = (
            "what cannot be run is refused, with a message: it never crashes" if crashed else ""
        )
        return Verdict(
            case, f"{'crashed' if crashed else 'refused'} {who}", "-", "-", details, violation
        )
    before, after = Path(old.run), Path(new.run)
    (old_bits, *old_rest), (new_bits, *new_rest) = read(before), read(after)
    bits = [
        told
        for name, told in changed(old_bits, new_bits).items()
        if name in old_bits and name in new_bits
    ]
    guarantee, packages = (
        list(changed(*both).values()) for both in zip(old_rest, new_rest, strict=True)
    )
    same, violation = before.name == after.name, ""
    if bits and same:
        violation = (
            "other bits under the same identity: a finished run of before is taken for one of"
            " after"
        )
    elif not bits and not same:
        violation = (
            "the same bits under another identity: a finished run of before is not found any more"
        )
    details |= {
        "bits": bits,
        "other packages": packages if bits else [],
        "guarantee": guarantee,
        "identity": [] if same else [f"{before.name} -> {after.name}"],
    }
    words = (
        "same" if same else "other",
        "other" if bits else "same",
        "other" if guarantee else "same",
    )
    return Verdict(case, *words, details, violation)


def read(run: Path) -> tuple[Fields, Fields, Fields]:
    """Its bits, its guarantee, and the packages that it was made with."""
    result, environment = (
        json.loads((run / f"{name}.json").read_text()) for name in ("result", "environment")
    )
    ledger = result.pop("privacy", None) or {}
    bits = {name: (run / name).read_bytes() for name in ("params.npy", "metrics.csv")}
    # a sum of what devices stored
    history = {"history": result["history"]} if "history" in result else {}
    guarantee = numbers({"views": ledger.get("views", [])})
    packages = {"Python": environment["python"], **environment["packages"]}
    return bits | history | dict(numbers(result)), dict(guarantee), packages


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All numbers (and None for what is not known, or has no limit) below a value, by their path;
    no words, no times. What the ledger says is named by adversary and unit: "server client
    epsilon"."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if "seconds" not in key and key not in ("sums", "notes"):
                yield from numbers(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            which = (
                (inner.get("against") or inner.get("unit")) if isinstance(inner, dict) else None
            )
            yield from numbers(
                inner,
                f"{name} {i}" if which is None else f"{name.rpartition(' ')[0]} {which}".strip(),
            )
    elif not isinstance(value, str):
        yield name, value


def changed(old: Fields, new: Fields) -> dict[str, str]:
    """What is not the same: files by name, numbers with their values."""
    told = {}
    for name in {**old, **new}:
        values = old.get(name, "nothing"), new.get(name, "nothing")
        if values[0] != values[1]:
            shown = " -> ".join(
                f"{value:.9g}" if isinstance(value, float) else str(value) for value in values
            )
            told[name] = name if isinstance(values[0], bytes) else f"{name} {shown}"
    return told


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", nargs="?", help="the older commit")
    parser.add_argument(
        "--new", default=str(HERE), metavar="PATH_OR_COMMIT", help="default: this working tree"
    )
    parser.add_argument("--old-foltr", metavar="PATH", help="an executable in the place of COMMIT")
    parser.add_argument("--new-foltr", metavar="PATH", help="an executable in the place of --new")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep environments and runs here for the next call",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    given = parser.parse_args()
    if (given.commit is None) == (given.old_foltr is None):
        parser.error("give the older commit, or --old-foltr")
    if given.jobs < 1:
        parser.error("--jobs must be at least 1")
    return given


def compare(given: argparse.Namespace, keep: Path, pool: ThreadPoolExecutor) -> list[Verdict]:
    try:
        fcntl.flock(os.open(keep, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Impossible(f"another comparison is at work in {keep}") from None
    old = Side(keep / "before", given.old_foltr or given.commit, given.old_foltr is not None)
    new = Side(keep / "after", given.new_foltr or given.new, given.new_foltr is not None)
    bits_cases.write_collections(keep / "data")
    list(pool.map(Side.prepare, (old, new)))
    makings = [Making(side, group) for group in GROUPS for side in (old, new)]
    futures = {pool.submit(making.make): making for making in makings}
    done = {"before": 0, "after": 0}
    for future in as_completed(futures):
        future.result()
        done[futures[future].side.folder.name] += len(futures[future].group.cases)
        print(
            ", ".join(f"{name}: {count} of {CASES} cases" for name, count in done.items()),
            file=sys.stderr,
        )
    pairs = [
        (before.outcomes(), after.outcomes())
        for before, after in zip(makings[::2], makings[1::2], strict=True)
    ]
    return [judged(case, before[case], after[case]) for before, after in pairs for case in before]


def tell(verdicts: list[Verdict], seconds: float) -> None:
    width = max(len(verdict.case) for verdict in verdicts) + 2
    print(f"{'case':<{width}}{'identity':<16}{'bits':<8}guarantee")
    for v in verdicts:
        print(f"{v.case:<{width}}{v.identity:<16}{v.bits:<8}{v.guarantee}")
        for what, told in {**v.details, "VIOLATION": [v.violation] if v.violation else []}.items():
            more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
            if told:
                print(f"    {what}: {', '.join(told[:SHOWN])}{more}")
    bits, guarantees = Counter(v.bits for v in verdicts), Counter(v.guarantee for v in verdicts)
    identities, broken = (
        Counter(v.identity.split()[0] for v in verdicts),
        sum(bool(v.violation) for v in verdicts),
    )
    print(
        f"{len(verdicts)} cases in {seconds:.0f} s: {bits['same']} with the same bits,"
        f" {bits['other']} with others, {identities['other']} with another identity,"
        f" {guarantees['other']} with another guarantee, {identities['refused']} refused,"
        f" {identities['crashed']} crashed, {broken} violations"
    )


def main() -> int:
    given, began = arguments(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        tempfile.TemporaryDirectory(prefix="foltr-bits-") as gone,
        ThreadPoolExecutor(given.jobs) as pool,
    ):
        keep = (given.keep or Path(gone)).resolve()
        keep.mkdir(parents=True, exist_ok=True)
        try:
            verdicts = compare(given, keep, pool)
        except (Impossible, OSError) as error:
            print(f"bits: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print(
                "bits: stopped; with --keep, the same command goes on from the whole groups",
                file=sys.stderr,
            )
            return 130
        finally:
            stop()
    tell(verdicts, time.monotonic() - began)
    if any(verdict.violation for verdict in verdicts):
        return 1
    return 0 if any(verdict.bits != "-" for verdict in verdicts) else 2


if __name__ == "__main__":
    sys.exit(main())
