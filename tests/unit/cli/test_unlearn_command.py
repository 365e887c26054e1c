"""`foltr unlearn`: a new ranker and a report; what cannot be unlearned is one message and exit
code 2."""

import json
import os
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app
from foltr.cli.unlearn import REPORT
from foltr.experiment import Experiment
from foltr.simulation.runs.folder import Folder

BASE = Experiment(
    data="Marked(data=Synthetic(queries=40), users=5)",
    partition="ByUser()",
    clients=5,
    rounds=20,
    history=4,
    learner="PDGD(sessions=4)",
)


def foltr(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def trained(tmp_path):
    return BASE.run(tmp_path / "runs").folder


def test_a_new_ranker_and_a_report(trained):
    before = contents(trained)
    done = foltr("unlearn", trained, "--clients", "3", "--quiet")
    assert done.exit_code == 0, done.output
    for said in (
        "client 3 unlearned by FedEraser(sessions=3) (in ",
        "); 4 of 5 clients remain",
        "retrained 3",
        "offline nDCG@10",
        "influence left",
        "randomness explains ",
        "% of the squared distance from before to retrained",
        "effect of unique features",
        "L2 distance to retrained 1",
        "cosine to retrained 1",
        "local steps",
        "messages to server",
        "bytes to server",
        "norms: 20 bytes per client, 100 in total",
    ):
        assert said in done.output
    assert contents(trained) == before
    assert len(list(trained.parent.iterdir())) == 1 + 1 + 3
    new = replace(BASE, unlearning="FedEraser(sessions=3)", leaving=((3,),)).run(trained.parent)
    assert new.found
    told = json.loads((new.folder / REPORT).read_text())
    assert told["messages"]["made"] == 5 * 4 and set(told["runs"]) == {
        "before", "after", "retrained 1", "retrained 2", "retrained 3"
    }  # fmt: skip
    assert Folder(new.folder).final()["unlearning"]["method"] == "FedEraser(sessions=3)"


def test_as_json_and_alone_and_by_another_method(trained):
    done = foltr(
        "unlearn",
        trained,
        "--clients",
        "3, 1",
        "--method",
        "FineTune(rounds=3)",
        "--retrainings",
        0,
        "--json",
        "--quiet",
    )
    told = json.loads(done.stdout)
    assert (
        told["leaving"] == [[1, 3]]
        and told["method"] == "FineTune(rounds=3)"
        and "influence" not in told
    )
    assert len(list(trained.parent.iterdir())) == 2


def test_others_leave_an_unlearned_run_in_turn(trained):
    told = json.loads(
        foltr("unlearn", trained, "--clients", 3, "--retrainings", 0, "--json", "--quiet").stdout
    )
    again = foltr("unlearn", told["run"], "--clients", 0, "--retrainings", 3, "--json", "--quiet")
    second = json.loads(again.stdout)
    assert second["leaving"] == [[3], [0]] and second["from"] == os.path.basename(told["run"])
    assert second["runs"]["before"] == second["from"]
    one = Experiment(**{**BASE.config(), "unlearning": "Retrain(luck=1)", "leaving": ((0, 3),)})
    # without both, at once
    assert second["runs"]["retrained 1"] == one.run(trained.parent).folder.name
    other = foltr("unlearn", told["run"], "--clients", 0, "--method", "FineTune()")
    assert other.exit_code == 2 and "all groups must leave by one method" in other.output
    twice = foltr("unlearn", told["run"], "--clients", 3)
    assert twice.exit_code == 2 and "client 3 leaves twice" in twice.output


def test_retraining_is_compared_with_retrainings_of_other_luck(trained):
    told = foltr("unlearn", trained, "--clients", 3, "--method", "Retrain()", "--json", "--quiet")
    names = json.loads(told.stdout)["runs"]
    assert len(set(names.values())) == 5


def test_the_malicious_leave(tmp_path):
    bad = replace(BASE, attack="CompromisedModel()", malicious=2)
    trained = bad.run(tmp_path).folder
    told = json.loads(
        foltr("unlearn", trained, "--clients", "malicious", "--json", "--quiet").stdout
    )
    assert told["leaving"] == [
        list(replace(bad, unlearning="Retrain()", leaving="malicious").departures.groups[0])
    ]


def test_to_another_folder(trained, tmp_path):
    done = foltr(
        "unlearn",
        trained,
        "--clients",
        3,
        "--out",
        tmp_path / "new",
        "--retrainings",
        1,
        "--quiet",
    )
    assert done.exit_code == 0, done.output
    assert (
        len(list((tmp_path / "new").iterdir())) == 2 and len(list(trained.parent.iterdir())) == 1
    )


def test_a_training_of_fewer_sessions_than_usual(tmp_path):
    trained = replace(BASE, learner="PDGD(sessions=2)").run(tmp_path).folder
    done = foltr("unlearn", trained, "--clients", 3, "--retrainings", 0, "--quiet")
    assert (
        "FedEraser(sessions=2)" in done.output
        and "note: FedEraser(sessions=2) makes as many" in done.output
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--clients", "5"), "there is no client 5: they are 0 .. 4"),
        (("--clients", "3,3"), "client 3 leaves twice"),
        (("--clients", "0,1,2,3,4"), "all 5 clients leave"),
        (("--clients", "three"), "--clients needs numbers"),
        (("--clients", ""), "--clients needs numbers"),
        (("--clients", "malicious"), "needs an attack"),
        (("--clients", "3", "--method", "FedEraser(sessions=9)"), "more than training's 4"),
        (("--clients", "3", "--method", "FedErazer()"), "did you mean 'FedEraser'"),
        (("--clients", "3", "--method", "PDGD()"), "it is a learner"),
        (("--clients", "3", "--retrainings", "-1"), "retrainings must be >= 0"),
        (("--clients", "3", "--threads", "0"), "threads must be >= 1"),
        (("--clients", "3", "--engine", "fast"), "engine must be"),
    ],
)
def test_what_cannot_be_unlearned(trained, words, message):
    before = contents(trained)
    done = foltr("unlearn", trained, *words)
    assert done.exit_code == 2 and message in done.output, done.output
    assert contents(trained) == before and len(list(trained.parent.iterdir())) == 1


def test_a_run_without_a_history(tmp_path):
    trained = replace(BASE, history=None).run(tmp_path).folder
    done = foltr("unlearn", trained, "--clients", 3)
    assert (
        done.exit_code == 2 and "set history=10 (every 10 rounds), or use Retrain()" in done.output
    )
    assert len(list(tmp_path.iterdir())) == 1
    done = foltr(
        "unlearn", trained, "--clients", 3, "--method", "Retrain()", "--retrainings", 0, "--quiet"
    )
    assert done.exit_code == 0, done.output


def test_a_client_that_never_took_part(tmp_path):
    few = replace(BASE, participation=0.2, rounds=2)
    trained = few.run(tmp_path).folder
    codes = [
        foltr("unlearn", trained, "--clients", c, "--retrainings", 0, "--quiet") for c in range(5)
    ]
    absent = [done for done in codes if done.exit_code == 2]
    assert len(absent) >= 3 and all(
        "never took part in the 2 rounds" in done.output for done in absent
    )


def test_what_is_no_finished_run(trained, tmp_path):
    assert "is not the folder of a run" in foltr("unlearn", tmp_path, "--clients", 3).output
    (trained / "result.json").unlink()
    done = foltr("unlearn", trained, "--clients", 3)
    assert done.exit_code == 2 and "is not finished: `foltr run" in done.output


def test_a_run_of_another_name_is_not_taken_for_the_one_that_it_was(trained):
    moved = trained.rename(trained.with_name("mine"))
    done = foltr("unlearn", moved, "--clients", 3)
    assert done.exit_code == 2 and "is not the run that its config describes" in done.output
    assert [path.name for path in moved.parent.iterdir()] == ["mine"]


def test_a_baseline_has_no_clients(tmp_path):
    trained = (
        Experiment(data="Synthetic(queries=40)", baseline="LeastSquares()").run(tmp_path).folder
    )
    done = foltr("unlearn", trained, "--clients", 3)
    assert done.exit_code == 2 and "it learned from labels" in done.output
