"""`foltr.use`: a file is loaded whole or not at all, and threads do not take files from each
other."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from foltr.core import spec
from foltr.core.errors import Mistake
from foltr.core.spec import aggregators
from foltr.experiment import Experiment
from foltr.experiment.user_files import use, using_only
from foltr.report.chapters.registry import chapters

RULE = """
from dataclasses import dataclass
from foltr.core.kinds import Memoryless
from foltr.report.chapters.registry import chapter
from foltr.core.spec import aggregator

@aggregator
@dataclass(frozen=True)
class {name}(Memoryless):
    def combine(self, cohort):
        return {factor} * cohort.updates.mean(axis=0, dtype=float)

@chapter
def chapter_{factor}(runs):
    return None
"""
ERRORS = {
    "error": ("1 / 0", Mistake),
    "exit": ("raise SystemExit(3)", Mistake),
    "Ctrl-C": ("raise KeyboardInterrupt", KeyboardInterrupt),
    "syntax": ("def", Mistake),
}


def run_of(name):
    return Experiment(
        data="Synthetic(queries=20)", aggregator=f"{name}()", clients=2, rounds=2
    ).run()


@pytest.mark.parametrize(("line", "error"), ERRORS.values(), ids=ERRORS)
def test_a_file_that_fails_leaves_what_was_loaded_before(tmp_path, line, error):
    file = tmp_path / "mine.py"
    file.write_text(RULE.format(name="Mine", factor=1))
    use(file)
    rule, before, names = aggregators.members()["Mine"], run_of("Mine"), names_of_chapters()
    file.write_text(RULE.format(name="Mine", factor=2) + line)
    with pytest.raises(error):
        use(file)
    assert aggregators.members()["Mine"] is rule and names_of_chapters() == names
    assert np.array_equal(run_of("Mine").params, before.params)
    file.write_text(RULE.format(name="Mine", factor=1))
    use(file)
    assert np.array_equal(run_of("Mine").params, before.params)
    file.write_text(RULE.format(name="Mine", factor=2))
    use(file)
    assert not np.array_equal(run_of("Mine").params, before.params)
    assert names_of_chapters() == [*names[:-1], "chapter_2"]


def names_of_chapters():
    return [each.name for each in chapters()]


def test_the_names_of_a_file_that_failed_are_free(tmp_path):
    modules = set(sys.modules)
    (tmp_path / "bad.py").write_text(RULE.format(name="Mine", factor=1) + "1 / 0")
    (tmp_path / "good.py").write_text(RULE.format(name="Mine", factor=2))
    with pytest.raises(Mistake, match=r"ZeroDivisionError: division by zero \(bad.py, line 16\)"):
        use(tmp_path / "bad.py")
    assert "Mine" not in aggregators.members() and set(sys.modules) == modules
    use(tmp_path / "good.py")
    assert aggregators.build("Mine()").combine is not None


def test_threads_with_other_files_wait_and_those_with_the_same_share_them(tmp_path):
    """As runs of several sweeps in one worker of a cluster."""
    files = [tmp_path / f"{letter}.py" for letter in "abc"]
    for factor, file in enumerate(files, start=1):
        file.write_text(RULE.format(name="Mine", factor=factor))

    def load(number):
        with using_only([files[number % 3]]):
            return [run_of("Mine").params.tobytes() for _ in range(2)]

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(load, range(18)))
    for number, (first, second) in enumerate(results):
        assert first == second == results[number % 3][0]
    assert len({first for first, _ in results}) == 3


class Package:
    """An entry point whose module registers a rule; the first import raises `error`."""

    dist, value = None, "their_rules"

    def __init__(self, error):
        self.error = error

    def load(self):
        if self.value in sys.modules:
            return
        error, self.error = self.error, None
        module = type(sys)(self.value)
        sys.modules[self.value] = module
        try:
            code = RULE.format(name="Theirs", factor=1)
            exec(code, vars(module))
            if error is not None:
                raise error
        except BaseException:
            del sys.modules[self.value]  # as an import does
            raise


@pytest.fixture
def installed(monkeypatch):
    def install(error):
        monkeypatch.setattr(spec, "_installed", [])
        package = Package(error)
        monkeypatch.setattr(spec, "entry_points", lambda group: [package])

    yield install
    sys.modules.pop(Package.value, None)


def test_ctrl_c_while_a_package_is_imported(installed):
    """The next time it is imported again."""
    installed(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        spec._load_installed()
    assert "Theirs" not in aggregators.members()
    spec._load_installed()
    assert "Theirs" in aggregators.members()


@pytest.mark.parametrize("error", [ValueError("no licence"), SystemExit("no licence")])
def test_a_package_that_fails_registers_nothing(installed, error, capsys):
    installed(error)
    spec._load_installed()
    assert "their_rules could not be loaded: no licence" in capsys.readouterr().err
    assert "Theirs" not in aggregators.members()
