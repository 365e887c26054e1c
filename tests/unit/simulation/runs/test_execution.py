"""Engines that are made by whatever is given to `Experiment.run`, and how often they save."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from foltr.core.errors import Mistake
from foltr.experiment import Experiment
from foltr.simulation.runs.execution import Simulated, engine_maker
from foltr.simulation.runs.folder import Folder


@dataclass(frozen=True)
class Counting:
    """Makes the usual engine, and remembers that it was asked to."""

    checkpoint_seconds: float | None = None
    name: str = "counting"
    made: list = field(default_factory=list)

    def __call__(self, e, p, params, threads, seed):
        self.made.append(seed)
        return Simulated()(e, p, params, threads, seed)


@pytest.fixture
def experiment():
    return Experiment(data="Synthetic(queries=20)", clients=4, rounds=6, seed=9)


def test_an_engine_can_be_made_by_a_factory(experiment, tmp_path):
    maker = Counting()
    made = experiment.run(out=tmp_path, engine=maker)
    np.testing.assert_array_equal(made.params, experiment.run().params)
    assert maker.made == [9] and made.final["engine"] == "counting"
    assert json.loads((made.folder / "result.json").read_text())["engine"] == "counting"
    assert engine_maker(maker) is maker and engine_maker("debug") == Simulated("debug")
    with pytest.raises(Mistake, match="engine must be"):
        engine_maker("other")


@pytest.mark.parametrize(("seconds", "saved"), [(0.0, [1, 2, 3, 4, 5]), (None, []), (1e9, [])])
def test_checkpoints_are_as_frequent_as_the_engine_wants(
    experiment, tmp_path, monkeypatch, seconds, saved
):
    rounds, checkpoint = [], Folder.checkpoint

    def counted(self, state, *rest):
        rounds.append(state.t)
        return checkpoint(self, state, *rest)

    monkeypatch.setattr(Folder, "checkpoint", counted)
    experiment.run(out=tmp_path, engine=Counting(seconds))
    assert rounds == saved


def test_a_checkpoint_is_written_before_the_next_round_is_asked(experiment, tmp_path, monkeypatch):
    order, checkpoint = [], Folder.checkpoint

    def told(self, state, *rest):
        order.append(("saved", state.t))
        return checkpoint(self, state, *rest)

    @dataclass(frozen=True)
    class Telling(Counting):
        def __call__(self, *parts):
            engine = super().__call__(*parts)
            collect = engine.collect

            def asked(ask, clients):
                order.append(("asked", ask.t))
                return collect(ask, clients)

            engine.collect = asked
            return engine

    monkeypatch.setattr(Folder, "checkpoint", told)
    experiment.run(out=tmp_path, engine=Telling(0.0))
    assert order == [
        ("asked", 0),
        *((what, t) for t in range(1, 6) for what in ("saved", "asked")),
    ]


def test_a_clock_that_stands_still_does_not_stop_checkpoints(experiment, tmp_path, monkeypatch):
    saved, checkpoint = [], Folder.checkpoint
    monkeypatch.setattr("foltr.simulation.runs.train.time.monotonic", lambda: 1.0)
    monkeypatch.setattr(
        Folder, "checkpoint", lambda self, *given: saved.append(1) or checkpoint(self, *given)
    )
    experiment.run(out=tmp_path, engine=Counting(0.0))
    assert len(saved) == 5
