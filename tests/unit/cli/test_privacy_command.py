"""`foltr privacy`: the guarantee of a file before anything is run."""

import re

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.core.errors import Mistake
from foltr.simulation.runs import config

SMALL = 'data = "Synthetic(queries=20)"\nrounds = 50\n'


def printed(tmp_path, text, *options):
    file = tmp_path / "e.toml"
    file.write_text(text)
    done = CliRunner().invoke(app, ["privacy", str(file), *options])
    return done.exit_code, done.output


def test_the_guarantees_of_a_file_are_known_before_it_is_run(tmp_path):
    code, said = printed(
        tmp_path, SMALL + 'privacy = "GammaShares(epsilon=1.2, sensitivity=3.0)"\nclients = 100\n'
    )
    assert code == 0 and len(said.splitlines()) <= 25
    assert "GammaShares(epsilon=1.2, sensitivity=3.0)" in said and "sqrt(46)" in said
    assert re.search(r"the server +no limit +no limit +-\n", said)
    assert list(tmp_path.iterdir()) == [tmp_path / "e.toml"]  # no run


def test_a_file_without_a_privatizer_says_so(tmp_path):
    code, said = printed(tmp_path, SMALL)
    assert code == 0 and "none" in said and "There is no privacy guarantee" in said


def test_delta_can_be_given(tmp_path):
    text = SMALL + 'privacy = "Gaussian(noise=4.0, clip=1.0)"\n'
    assert "delta = 1e-05" in printed(tmp_path, text)[1]
    assert "delta = 1e-09" in printed(tmp_path, text, "--delta", "1e-9")[1]
    code, said = printed(tmp_path, text, "--delta", "2")
    assert code == 2 and "probability" in said


@pytest.mark.parametrize("sweep", ["", "[sweep]\nseed = [1, 2]\n"])
def test_what_a_run_refuses_has_no_guarantee(tmp_path, sweep):
    """Shares of noise need equal weights, which only the partition's population shows: 5.84 was
    printed."""
    text = (
        SMALL + 'partition = "ByVolume()"\nprivacy = "GammaShares(epsilon=1.2,'
        ' sensitivity=3.0)"\nchannel = "SecureSum()"\n'
    )
    code, said = printed(tmp_path, text + sweep)
    assert (
        code == 2
        and "GammaShares needs equal weights" in " ".join(said.split())
        and "epsilon, against" not in said
    )
    values = config.read(tmp_path / "e.toml", beside=("sweep",))
    values.pop("sweep", None)
    with pytest.raises(Mistake, match="GammaShares needs equal weights"):
        config.experiment(values).run()


def test_malicious_clients_are_part_of_a_guarantee(tmp_path):
    text = (
        SMALL + 'clients = 100\nmalicious = 30\nprivacy = "Gaussian(noise=20.0, clip=0.1,'
        " where='shares')\"\nchannel = 'SecureSum()'\n[[sweep.method]]\nname = 'none'\nmalicious"
        " = 0\n[[sweep.method]]\nname = 'blind'\nattack ="
        " 'CompromisedModel()'\n[[sweep.method]]\nname = 'copies'\nattack = 'Mimic()'\n"
    )
    code, said = printed(tmp_path, text)
    assert code == 0 and said.count("1 experiment: ") == 3
    assert (
        "70 of 100 shares of the noise are counted. 30 malicious clients may add no share"
        in " ".join(said.split())
    )
    assert "The messages of malicious clients may depend on those of honest clients" in " ".join(
        said.split()
    )


def test_how_many_are_malicious_is_part_of_a_guarantee(tmp_path):
    text = (
        SMALL + "clients = 100\nattack = 'CompromisedModel()'\nprivacy = \"Gaussian(noise=20.0,"
        " clip=0.1, where='shares')\"\nchannel = 'SecureSum()'\n[sweep]\nmalicious = [1, 40,"
        " 80]\n"
    )
    said = printed(tmp_path, text, "--colluding", "20")[1]
    words = " ".join(said.split())
    assert (
        said.count("1 experiment: ") == 3
        and "1 malicious client and 20 colluding clients may add no share" in words
    )
    assert (
        "100 malicious or colluding clients" not in words and "80 malicious clients and" in words
    )


def test_each_method_of_a_sweep_is_printed_once(tmp_path):
    text = (
        SMALL
        + "participation = 0.5\nclients = 10\n[sweep]\nseed = [1, 2, 3]\n[[sweep.method]]\nname ="
        " 'bare'\n[[sweep.method]]\nname = 'local'\nprivacy = 'Laplace(epsilon=1.0,"
        " clip=0.1)'\n[[sweep.method]]\nname = 'weaker'\nprivacy = 'Laplace(epsilon=2.0,"
        " clip=0.1)'\n"
    )
    code, said = printed(tmp_path, text)
    assert code == 0 and said.count("3 experiments: ") == 3
    assert [
        said.count(f"privacy       {word}")
        for word in ("none", "Laplace(epsilon=1.0", "Laplace(epsilon=2.0")
    ] == [1] * 3
    times = int(re.search(r"one client, (\d+) rounds", said)[1])
    assert 25 < times <= 50  # of the busiest client under the worst of the seeds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('privacy = "Lapalce(epsilon=1.0, clip=1.0)"', "did you mean 'Laplace'"),
        ('privacy = "Laplace(epsilon=0.0, clip=1.0)"', "epsilon must be > 0"),
        ('privacy = "RandomizedReward(p=0.9)"', "PDGD sends none"),
        ('learner = "ES()"\nprivacy = "RandomizedReward(p=0.05)"', "above 1 / 11"),
        ("privicy = 'x'", "did you mean 'privacy'"),
    ],
)
def test_what_is_illegal_is_refused(tmp_path, text, why):
    code, said = printed(tmp_path, text)
    assert code == 2 and why in " ".join(said.split())


def test_a_missing_file_is_named(tmp_path):
    done = CliRunner().invoke(app, ["privacy", str(tmp_path / "not.toml")])
    assert done.exit_code == 2 and "cannot read" in done.output
