"""What every unlearner must be true of. A new file is tested here without being mentioned."""

from dataclasses import replace

import numpy as np
from plain_things import each

from foltr.core.seeds import stream
from foltr.core.spec import unlearners
from foltr.core.world.history import History
from foltr.core.world.protocols import Past
from foltr.experiment import Experiment

SMALL = Experiment(
    data="Synthetic(queries=30)",
    clients=5,
    rounds=12,
    learner="PDGD(sessions=3)",
    history=4,
    evaluate_every=6,
)


each_one = each(unlearners)


def past():
    d, clients = 4, np.tile(np.arange(5, dtype=np.int32), (3, 1))
    updates = stream(0, "updates").normals(3 * 5 * d).reshape(3, 5, d).astype(np.float32)
    final = stream(0, "final").normals(d)
    for part in (updates, final, clients):
        part.setflags(write=False)
    history = History(4, 12, clients, updates)
    return Past(
        np.zeros(d), final, 12, 3, np.full(5, 3.0), np.array([1, 3]), np.array([0, 2, 4]), history
    )


@each_one
def test_it_makes_the_rounds_that_it_plans(thing):
    """The privacy ledger counts what is planned. None: it is refused with a privatizer."""
    planned, phases = thing.planned(12, 3, 3), thing.phases(past())
    if planned is None:
        return
    plans, made = ([each for each in all if each.rounds] for all in (planned, phases))
    for plan, phase in zip(plans, made, strict=True):
        assert (plan.rounds, plan.sessions, plan.who) == (phase.rounds, phase.sessions, phase.who)
        assert plan.changed or phase.send is None


@each_one
def test_it_starts_with_parameters_and_makes_rounds(thing):
    start = thing.start(past())
    assert start.shape == (4,) and start.dtype == np.float64
    for phase in thing.phases(past()):
        assert (
            phase.rounds >= 0
            and phase.sessions >= 1
            and phase.who in ("remaining", "leaving", "stored")
        )
        if phase.send is not None:
            asked = past().leaving if phase.who == "leaving" else past().remaining
            updates = stream(1, "new").normals(len(asked) * 4).reshape(-1, 4).astype(np.float32)
            updates.setflags(write=False)
            sent = phase.send(updates, asked, 0)
            assert sent.shape == updates.shape and np.isfinite(sent).all()
            assert np.isfinite(phase.send(np.zeros_like(updates), asked, 0)).all()
        if phase.keep is not None:
            far = thing.start(past()) + 1e6
            # there it stays
            np.testing.assert_allclose(phase.keep(phase.keep(far)), phase.keep(far), rtol=1e-12)


@each_one
def test_it_says_what_it_needs(thing):
    assert thing.stores in ("nothing", "norms", "updates")
    assert thing.handed >= 0 and (thing.handed == 0 or thing.stores == "updates")
    assert thing.repetition == 0
    assert all(isinstance(note, str) for note in thing.fits(5))


@each_one
def test_one_and_several_clients_together_and_one_after_another(thing, tmp_path):
    for leaving in (((1,),), ((1, 3),), ((3,), (1,))):
        e = replace(SMALL, unlearning=thing, leaving=leaving)
        result = e.run(tmp_path)
        about = result.final["unlearning"]
        gone = {client for group in leaving for client in group}
        assert about["remaining"] == 5 - len(gone) and about["method"] == repr(thing)
        assert about["leaving"] == [list(group) for group in leaving]
        assert np.isfinite(result.params).all() and result.params.any()
        assert about["local_steps"]["made"] == result.final["interactions"]
        assert e.run(tmp_path).found
        assert bits(e.run()) == bits(result)  # without a folder, all runs before it are made again


@each_one
def test_its_base_is_left_as_it_is(thing, tmp_path):
    before = SMALL.run(tmp_path)
    files = {file.name: file.read_bytes() for file in before.folder.iterdir()}
    replace(SMALL, unlearning=thing, leaving=((2,),)).run(tmp_path)
    assert {file.name: file.read_bytes() for file in before.folder.iterdir()} == files


@each(unlearners, lambda thing: thing.restarts)
def test_who_restarts_looks_at_nothing_that_the_leaving_client_sent(thing):
    """In bits: a federation in which that client attacked gives the same. But for the norms of
    others, where they are stored: those were sent from parameters that the leaving client had a
    part in."""
    attacked = replace(
        SMALL, attack="CompromisedModel()", malicious=1, unlearning=thing, leaving="malicious"
    )
    bad = int(stream(SMALL.seed, "malicious").sample(5, 1)[0])
    honest = replace(SMALL, unlearning=thing, leaving=((bad,),))
    assert (bits(attacked.run()) == bits(honest.run())) == (thing.stores == "nothing")


def bits(result):
    return result.params.tobytes(), result.metrics.csv()
