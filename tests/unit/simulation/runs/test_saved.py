"""The ranker that a path holds: of a run, also of before; of a server; in a file."""

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import foltr
from foltr.core.errors import Mistake
from foltr.core.scoring import PerFeature, PerQuery
from foltr.core.spec import sources
from foltr.experiment.user_files import Code
from foltr.simulation.exports.export import trained_in
from foltr.simulation.runs.folder import ENVIRONMENT, Folder

STRANGER = Code(trusted=False)
LETOR = "".join(
    f"{label} qid:{q} 1:{q + label} 2:{30 * label} 3:{5}\n"
    for q in range(9)
    for label in (0, 1, 2)
)
NAMED = '''
from dataclasses import dataclass, replace
import foltr
from foltr.core.scoring import PerFeature
from foltr.core.spec import source

@source
@dataclass(frozen=True)
class NamedData:
    """Synthetic data whose features have names and a fixed normalisation."""
    splits = ("train", "test")

    def load(self, split):
        data = foltr.Synthetic(queries=20).load(split)
        names = tuple(f"f{i}" for i in range(data.width))
        fixed = PerFeature((0.5,) * data.width, (2.0,) * data.width)
        return replace(data, names=names, normalisation=fixed)
'''


def made(tmp_path, **fields):
    e = foltr.Experiment(**{"data": "Synthetic(queries=20)", "clients": 3, "rounds": 3, **fields})
    return e.run(tmp_path / "runs")


def equal(a, b):
    np.testing.assert_array_equal(a.params, b.params)
    about = [(x.ranker, x.features, x.names, x.normalisation) for x in (a, b)]
    return about[0] == about[1]


def letor(tmp_path, normalize):
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        (tmp_path / "data" / f"{split}.txt").write_text(LETOR)
    return foltr.Letor(path=str(tmp_path / "data"), normalize=normalize)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_run_knows_its_normalisation_without_its_data(normalize, tmp_path):
    result = made(tmp_path, data=letor(tmp_path, normalize))
    for file in (tmp_path / "data").iterdir():
        file.unlink()
    found = trained_in(result.folder, STRANGER)
    assert found.normalisation == (PerQuery() if normalize else None) and found.names is None
    assert equal(found, result.trained) and found.features == 3


def test_a_run_that_is_found_says_the_same(tmp_path):
    source = letor(tmp_path, True)
    first, again = made(tmp_path, data=source), made(tmp_path, data=source)
    assert again.found and equal(first.trained, again.trained)


def test_a_run_of_an_earlier_foltr_asks_its_data(tmp_path):
    result = made(tmp_path, data=letor(tmp_path, True))
    before(result.folder)
    assert equal(trained_in(result.folder, STRANGER), result.trained)
    (tmp_path / "data" / "train.txt").unlink()
    with pytest.raises(Mistake, match=r"an earlier foltr.*no train\.txt"):
        trained_in(result.folder, STRANGER)


def before(folder):
    """Make the folder one of a foltr that did not record features."""
    state, metrics, final = Folder(folder).finished()
    about = json.loads((folder / ENVIRONMENT).read_text())
    del about["features"]
    (folder / ENVIRONMENT).write_text(json.dumps(about))
    Folder(folder).finish(state, metrics, final)


def test_folders_that_foltr_0_1_and_0_2_made(tmp_path):
    """By foltr 0.1 and 0.2, which are kept for such tests."""
    with tarfile.open(Path(__file__).parent / "before.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4 on
        archive.extractall(tmp_path)
    runs = sorted({file.parent for file in tmp_path.rglob("result.json")})
    exported = 0
    for run in runs:
        try:
            trained = trained_in(run, STRANGER)
        except Mistake as mistake:
            assert "earlier foltr" in str(mistake) or "unknown" in str(mistake)
        else:
            exported += 1
            assert trained.features > 0
    assert runs and exported


@pytest.fixture
def named_data(tmp_path):
    """A user's file, whose component other tests do not meet."""
    file = tmp_path / "named_data.py"
    file.write_text(NAMED)
    foltr.use(file)
    yield file
    sources.forget(sources.members()["NamedData"].__module__)


def test_names_and_a_fixed_normalisation_of_a_users_source(tmp_path, named_data):
    file = named_data
    result = made(tmp_path, data="NamedData()")
    found = trained_in(result.folder, Code((file,), trusted=False))
    assert equal(found, result.trained)
    assert found.names[:2] == ("f0", "f1") and found.normalisation == PerFeature(
        (0.5,) * 46, (2.0,) * 46
    )
    with pytest.raises(Mistake, match="--use"):  # no code because a folder says so
        trained_in(result.folder, STRANGER)


def test_marks_have_names_and_keep_the_normalisation(tmp_path):
    source = letor(tmp_path, True)
    data = foltr.Marked(data=source, users=2).load("test")
    assert data.normalisation == PerQuery() and data.names is None and data.width == 5
    raw = foltr.Marked(data=replace(source, normalize=False), users=2).load("test")
    for q in range(raw.queries):
        rows = slice(raw.offsets[q], raw.offsets[q + 1])
        np.testing.assert_array_equal(PerQuery()(raw.features[rows]), data.features[rows])


def test_a_file_and_the_state_folder_of_a_server(tmp_path):
    trained = made(tmp_path).trained
    trained.save(tmp_path / "ranker.json")  # beside runs/: as in a state folder
    assert equal(trained_in(tmp_path / "ranker.json", STRANGER), trained)
    assert equal(trained_in(tmp_path, STRANGER), trained)


def test_other_paths_are_refused_with_a_way_out(tmp_path):
    result = made(tmp_path)
    (tmp_path / "empty").mkdir()
    for path, said in [
        (tmp_path / "runs", f"a folder of 1 run: give one, such as {result.folder}"),
        (tmp_path / "empty", "holds no ranker: give the folder of a run"),
        (tmp_path / "rans", "did you mean"),
        (tmp_path / "absent" / "run", "does not exist: give the folder of a run"),
        (result.folder / "params.npy", "is not a ranker that foltr saved"),
    ]:
        with pytest.raises(Mistake) as refused:
            trained_in(path, STRANGER)
        assert said in str(refused.value)
    (result.folder / "result.json").unlink()
    with pytest.raises(Mistake, match="is not finished"):
        trained_in(result.folder, STRANGER)


@pytest.mark.parametrize("about", [7, {}, {"number": "46"}, {"number": 46, "names": ["a"]}])
def test_features_that_cannot_be_read_are_refused(about, tmp_path):
    folder = made(tmp_path).folder
    params, metrics, final = Folder(folder).finished()
    environment = json.loads((folder / ENVIRONMENT).read_text())
    (folder / ENVIRONMENT).write_text(json.dumps({**environment, "features": about}))
    Folder(folder).finish(params, metrics, final)
    with pytest.raises(Mistake, match="features"):
        trained_in(folder, STRANGER)
