"""Compiled code: found again by the next process, never stale after an edit, not needed to run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src" / "foltr"
ASK = """
from foltr.kernels.interaction import finite
import numpy as np
print(finite(np.array([1, 5, 3], np.float32), 3), sum(finite.stats.cache_hits.values()))
"""


def asked(package: Path, cache: Path, code: str = ASK):
    env = {**os.environ, "PYTHONPATH": str(package), "FOLTR_CACHE": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )


@pytest.fixture
def package(tmp_path):
    shutil.copytree(
        SOURCE, tmp_path / "copy" / "foltr", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path / "copy"


def test_a_second_process_compiles_nothing(package, tmp_path):
    assert asked(package, tmp_path / "cache").stdout.split() == ["True", "0"]
    assert asked(package, tmp_path / "cache").stdout.split() == ["True", "1"]


@pytest.mark.slow
def test_an_edit_of_a_callee_in_another_file_is_seen(package, tmp_path):
    """numba alone would serve the old code: it looks at the caller's file only."""
    ask = """
from foltr.kernels.interaction import choose
import numpy as np
print(choose(np.uint64(2**63 + 7**20), 0, 1000, np.zeros(1, np.int64))[0])
"""
    before = asked(package, tmp_path / "cache", ask).stdout
    assert asked(package, tmp_path / "cache", ask).stdout == before
    draws = package / "foltr" / "kernels" / "draws.py"
    draws.write_text(draws.read_text().replace("z >> uint64(30)", "z >> uint64(29)"))
    assert asked(package, tmp_path / "cache", ask).stdout != before


@pytest.mark.parametrize("name", ["core/ranking.py", "kernels/interaction.py"])
def test_an_edit_of_what_kernels_freeze_moves_the_cache(name, package, tmp_path):
    ask = "from foltr.kernels import sources_hash\nprint(sources_hash())"
    before = asked(package, tmp_path / "cache", ask).stdout
    file = package / "foltr" / name
    file.write_text(file.read_text() + "\n# edited\n")
    assert asked(package, tmp_path / "cache", ask).stdout != before


@pytest.mark.slow
def test_a_process_that_compiles_gives_the_bits_of_one_that_loads(package, tmp_path):
    """Copies of one callee in several kernels may round differently: which one runs must not
    depend on who loads it."""
    ask = """
import foltr
small = dict(data="Synthetic(queries=30)", learner="PDGD(sessions=3)")
e = foltr.Experiment(clients=5, rounds=200, **small)
print(e.run().params.tobytes().hex())
"""
    cold, warm = (asked(package, tmp_path / "cache", ask).stdout for _ in range(2))
    assert cold == warm and len(cold) == 46 * 16 + 1


def test_without_a_place_to_write_it_still_runs(package, tmp_path):
    (tmp_path / "file").write_text("no folder can be made below a file")
    done = asked(package, tmp_path / "file")
    assert done.stdout.split() == ["True", "0"]
    assert "FOLTR_CACHE" in done.stderr


@pytest.mark.slow
def test_nothing_is_written_beside_the_sources(package, tmp_path):
    """Not even where the folder of numba within the cache cannot be used."""
    asked(package, tmp_path / "cache")
    (folder,) = (tmp_path / "cache" / "kernels").iterdir()
    (own,) = folder.iterdir()
    shutil.rmtree(own)
    own.write_text("not a folder")
    done = asked(package, tmp_path / "cache")
    assert done.stdout.split() == ["True", "0"] and "compiles anew in every process" in done.stderr
    assert not list(package.rglob("*.nbi")) and not list(package.rglob("*.nbc"))


@pytest.mark.slow
def test_old_versions_are_cleared_away(package, tmp_path):
    kernels = tmp_path / "cache" / "kernels"
    for i in range(9):
        (kernels / f"old{i}").mkdir(parents=True)
        os.utime(kernels / f"old{i}", (i, i))
    asked(package, tmp_path / "cache")
    assert len(list(kernels.iterdir())) == 4 and (kernels / "old8").exists()
    # the one in use is still there
    assert asked(package, tmp_path / "cache").stdout.split() == ["True", "1"]


@pytest.mark.slow
def test_a_damaged_compile_cache_is_compiled_anew(tmp_path):
    cache = str(tmp_path / "cache")
    code = (
        "import numpy as np\nfrom foltr.kernels.interaction import finite\n"
        "print(finite(np.zeros(3, np.float32), 3))"
    )
    env = {**os.environ, "FOLTR_CACHE": cache}
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, env=env, capture_output=True, text=True).stdout == "True\n"
    for content in (b"", b"garbage"):
        for ending in ("nbi", "nbc"):
            damaged = list((tmp_path / "cache").rglob(f"*.{ending}"))
            assert damaged
            for file in damaged:
                file.write_bytes(content)
            assert subprocess.run(run, env=env, capture_output=True, text=True).stdout == "True\n"


def test_many_threads_may_be_first(tmp_path):
    code = """
from concurrent.futures import ThreadPoolExecutor
from foltr.experiment import Experiment

def run(i):
    parts = dict(data="Synthetic(queries=20)", ranker="Linear()", optimizer="Adam()")
    e = Experiment(clients=2, rounds=2, **parts)
    return e.run("runs").params.tobytes()

with ThreadPoolExecutor(8) as pool:
    print(len(set(pool.map(run, range(8)))))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "1\n", done.stderr
