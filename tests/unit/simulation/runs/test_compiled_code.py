"""Which code made a run: a finished run of other code is found with a note, half of one is not
continued, and runs without compiled code are not concerned."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.experiment import Experiment
from foltr.kernels import compiler
from foltr.simulation.runs.folder import ENVIRONMENT
from foltr.simulation.runs.identity import code_difference, described, difference, kinds, made_with

SMALL = Experiment(data="Synthetic(queries=40)", clients=4, rounds=6, evaluate_every=3)
OTHER = {"numba": "0.1.2", "llvmlite": "0.0.9", "settings": "opt 3"}


class Killed(BaseException):
    pass


def killed(progress):
    """Called after each round; the engine of these tests saves before."""
    if progress.t == 2:
        raise Killed


def half_made(e, out, monkeypatch, engine="local"):
    """The folder of a run that was killed after a checkpoint."""
    with monkeypatch.context() as patch:
        patch.setattr("foltr.simulation.runs.train.CHECKPOINT_SECONDS", 0.0)
        patch.setattr("foltr.simulation.runs.train.STRETCH_SECONDS", 0.0)
        with pytest.raises(Killed):
            e.run(out, engine=engine, watch=killed)
    (folder,) = (path for path in out.iterdir() if path.is_dir())
    assert (folder / "checkpoint.npz").exists()
    return folder


def test_a_run_records_its_code(tmp_path):
    made = SMALL.run(tmp_path)
    stored = json.loads((made.folder / ENVIRONMENT).read_text())
    assert stored["engine"] == "local"
    assert stored["compiled"] == {**compiler.versions(), **compiler.target()}
    assert stored["compiled"]["cpu"] and stored["compiled"]["cpu_features"]


def test_a_finished_run_of_another_compiler_is_found_with_a_note(tmp_path, monkeypatch):
    made = SMALL.run(tmp_path)
    assert not [note for note in SMALL.run(tmp_path).final["notes"] if "other code" in note]
    monkeypatch.setattr(compiler, "versions", lambda: OTHER)
    found = SMALL.run(tmp_path)
    assert found.found and found.folder == made.folder and (found.params == made.params).all()
    (note,) = [note for note in found.final["notes"] if "other code" in note]
    version = compiler.numba.__version__
    assert f"made by other code (numba {version}, here 0.1.2)" in note and "delete" in note
    assert "\n" not in note


def test_a_run_of_the_plain_engine_is_not_silently_one_of_the_compiled_engine(tmp_path):
    SMALL.run(tmp_path, engine="debug")
    assert SMALL.run(tmp_path, engine="debug").final["notes"] == []
    (note,) = SMALL.run(tmp_path).final["notes"]
    assert "the debug engine, here local" in note


def test_half_of_a_run_is_not_continued_by_another_compiler(tmp_path, monkeypatch):
    folder = half_made(SMALL, tmp_path, monkeypatch)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "versions", lambda: OTHER)
        with pytest.raises(Mistake, match=r"begun by other code \(numba .*delete the folder"):
            SMALL.run(tmp_path)
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {name: after[name] for name in before} == before
    began = []
    resumed = SMALL.run(tmp_path, watch=lambda progress: began.append(progress.began))
    assert set(began) == {1} and resumed.params.tobytes() == SMALL.run().params.tobytes()


def test_half_of_a_run_is_not_continued_by_another_engine(tmp_path, monkeypatch):
    half_made(SMALL, tmp_path, monkeypatch)
    with pytest.raises(Mistake, match="the local engine, here debug"):
        SMALL.run(tmp_path, engine="debug")


def test_nor_on_another_kind_of_cpu(tmp_path, monkeypatch):
    half_made(SMALL, tmp_path, monkeypatch)
    monkeypatch.setattr(compiler, "target", lambda: {"cpu": "i386", "cpu_features": "cx8"})
    with pytest.raises(Mistake, match=r"CPU \S+, here i386"):
        SMALL.run(tmp_path)


@pytest.mark.parametrize("rule", ["Mean()", "GeometricMedian()"])
def test_the_plain_engine_does_not_depend_on_the_compiler(rule, tmp_path, monkeypatch):
    e = replace(SMALL, aggregator=rule)
    half_made(e, tmp_path, monkeypatch, "debug")
    monkeypatch.setattr(compiler, "versions", lambda: OTHER)
    assert e.run(tmp_path, engine="debug").final["notes"] == []


def test_half_of_a_plain_run_whose_rules_were_compiled_is_not_continued(tmp_path, monkeypatch):
    """As foltr made them in the plain engine before it was plain."""
    median = replace(SMALL, aggregator="GeometricMedian()")
    folder = half_made(median, tmp_path, monkeypatch, "debug")
    stored = json.loads((folder / ENVIRONMENT).read_text())
    stored["compiled"] = made_with(SMALL, "local")["compiled"]
    (folder / ENVIRONMENT).write_text(json.dumps(stored))
    with pytest.raises(Mistake, match="rules and attacks by kernels, here plainly"):
        median.run(tmp_path, engine="debug")


def test_a_baseline_has_no_compiled_code(tmp_path, monkeypatch):
    best = Experiment(data="Synthetic(queries=40)", baseline="LambdaMART(trees=2)")
    stored = json.loads((best.run(tmp_path).folder / ENVIRONMENT).read_text())
    assert stored["engine"] is None and stored["compiled"] is None
    monkeypatch.setattr(compiler, "versions", lambda: OTHER)
    assert best.run(tmp_path, engine="debug").final["notes"] == best.run(tmp_path).final["notes"]


def test_of_a_run_of_before_only_numba_is_known():
    here = made_with(SMALL, "local")
    before = {"packages": {"numba": compiler.numba.__version__}}
    assert difference(before, here) == "" == difference({}, here)
    assert "numba 0.1" in difference({"packages": {"numba": "0.1"}}, here)
    assert difference({"packages": {"numba": "0.1"}}, made_with(SMALL, "debug")) == ""


@pytest.mark.parametrize("broken", [{"compiled": 3}, {"packages": 3}, {"compiled": {"numba": 3}}])
def test_an_environment_of_others_is_no_traceback(broken):
    assert isinstance(difference(broken, made_with(SMALL, "local")), str)


def test_clients_that_leave_a_run_of_other_code(tmp_path, monkeypatch):
    SMALL.run(tmp_path)
    monkeypatch.setattr(compiler, "versions", lambda: OTHER)
    left = replace(SMALL, unlearning="FineTune(rounds=2)", leaving=((1,),)).run(tmp_path)
    assert any("the run that clients leave was made by other code" in note
               for note in left.final["notes"])  # fmt: skip


codes = st.fixed_dictionaries(
    {"numba": st.sampled_from(["0.60.0", "0.61.2"])},
    optional={
        "llvmlite": st.sampled_from(["0.43.0", "0.44.0"]),
        "cpu": st.sampled_from(["znver3", "znver4"]),
        "settings": st.sampled_from(["opt 3", "opt 0"]),
        "cpu_features": st.sampled_from(["avx", "avx avx2", "avx2 fma"]),
    },
)


@given(codes, codes)
def test_a_difference_is_told_from_both_sides_or_from_none(old, new):
    assert bool(code_difference(old, new)) == bool(code_difference(new, old))
    assert code_difference(old, old) == ""
    told = code_difference(old, new)
    assert not told or "\n" not in told


@given(st.lists(codes, max_size=6))
def test_each_kind_of_code_counts_once(found):
    environments = [{"compiled": code} for code in found]
    different = kinds([*environments, *environments, {"compiled": None}])
    assert kinds(environments) == different
    assert all(code_difference(a, b) for i, a in enumerate(different) for b in different[:i])
    for code in found:
        assert any(not code_difference(code, kind) for kind in different)
        assert code["numba"] in described(code)


def test_the_names_of_a_cpu_are_compared_only_within_a_version():
    """LLVM 15 and LLVM 20 call one CPU by two names."""
    old = {"numba": "0.60.0", "llvmlite": "0.43.0", "cpu": "znver3"}
    new = {"numba": "0.61.2", "llvmlite": "0.44.0", "cpu": "znver4"}
    assert code_difference(old, new) == "numba 0.60.0, here 0.61.2"
    assert code_difference(old, {**old, "cpu": "znver4"}) == "CPU znver3, here znver4"


def test_instruction_sets_of_one_kind_of_cpu_are_named():
    old = {"numba": "1", "cpu": "skylake", "cpu_features": "avx avx512f"}
    told = code_difference(old, {**old, "cpu_features": "avx fma"})
    assert told == "a CPU with avx512f, one with fma here"


def test_every_kernel_cache_belongs_to_one_compiler(monkeypatch):
    from foltr import kernels

    before = kernels.sources_hash()
    monkeypatch.setattr(kernels, "versions", lambda: OTHER)
    assert kernels.sources_hash() != before
