"""Secure sums between real processes that are killed or lie at any step: the sum is exact or
withheld, in time; and no client's update is in the server's memory, database or logs."""

import signal

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from faulty_federation import MORE, Faulty
from memory_search import FORMATS, can_read_memory

from foltr.experiment import Experiment

NODES = 10
SETTINGS = {"data": "Synthetic(queries=40)", "rounds": 1000, "history": 1}
SERVER = {"wait": 90.0, "keep_models": 1000}
STEPS = ("KEYS", "SHARES", "MASKED", "SIGNED", "UNMASK")
KILLED = [(step, when) for step in STEPS for when in ("before", "made", "after")]
OUT = {*KILLED[:8]} - {("MASKED", "after")}  # whose words do not arrive
LIES = {  # step and lie -> the nodes whose clients drop out, of the liar 9
    ("KEYS", "replayed"): (9,),
    ("SHARES", "short"): (9,),
    ("SHARES", "sealed"): (0,),  # its clients cannot open what was sealed for each other
    ("MASKED", "short"): (9,),
    ("MASKED", "long"): (9,),
    ("MASKED", "swapped"): (9,),
    ("MASKED", "replayed"): (9,),
    ("MASKED", "old-frame"): (9,),
    ("SIGNED", "swapped"): (),
    ("UNMASK", "revealed"): (),
    ("UNMASK", "replayed"): (),
}
STOPS = [  # in two rounds at least
    ("MASKED", "before"),
    ("MASKED", "after"),
    ("UNMASK", "after"),
    ("KEYS", "after"),
    ("SIGNED", "before"),
    ("UNMASK", "after"),
]
turn = iter(range(10**6))


@pytest.fixture(scope="module")
def ten(tmp_path_factory):
    channel = "SecureSum(consistency=True)"  # 14 of 20
    e = Experiment(clients=2 * NODES, channel=channel, **SETTINGS)
    folder = tmp_path_factory.mktemp("ten")
    with Faulty(folder, e, nodes=NODES, server={"deadline": 6.0, **SERVER}) as here:
        yield here.begin()


@pytest.mark.loopback
def test_a_node_that_is_killed_in_the_middle(tmp_path):
    e = Experiment(clients=6, channel="SecureSum()", **SETTINGS)
    with Faulty(tmp_path, e, nodes=3, server={"deadline": 3.0, **SERVER}) as here:
        round = here.plan([1], "MASKED", "before")
        about = here.begin(there=False).wait_made(round)
        assert set(here.survivors(round)) == here.clients(0, 2), here.everything()
        assert about["seconds"] <= here.deadline + MORE
        here.check_bits(round)


@pytest.mark.faults
@pytest.mark.parametrize(("step", "when"), KILLED)
def test_a_node_that_is_killed_at_any_step(ten, step, when):
    """The two that were killed before it may still be away: then no more may be lost."""
    node = next(turn) % NODES
    ten.wait_for(range(NODES) if node == 0 else {*range(NODES)} - {node - 1, node - 2})
    round, about = ten.fails([node], step, when)
    print(f"{step} {when}: {about}")
    survivors = set(ten.survivors(round))
    assert survivors.isdisjoint(ten.clients(node)) == ((step, when) in OUT)
    assert len(survivors) == about["answered"] >= 14
    assert about["seconds"] <= ten.deadline + MORE
    ten.check_bits(round)


@pytest.mark.faults
@pytest.mark.parametrize("step", STEPS)
def test_too_few_are_left(ten, step):
    """Four nodes are killed, and 12 of 20 clients are left: nothing is released, and when the
    nodes are back the rounds go on."""
    ten.all_there()
    round, about = ten.fails([0, 3, 6, 9], step, "before")
    print(f"{step}, four nodes: {about}")
    assert about["answered"] == 0 and about["failures"]["withheld"] == 1
    assert about["seconds"] <= ten.deadline + MORE
    np.testing.assert_array_equal(ten.model(round + 1), ten.model(round))
    ten.all_there()


@pytest.mark.faults
@pytest.mark.parametrize(("step", "lie"), LIES)
def test_a_node_that_lies(ten, step, lie):
    ten.all_there()
    round, about = ten.fails([9], step, lie)
    print(f"{step} {lie}: {about}")
    lost = ten.clients(*LIES[step, lie])
    assert set(ten.survivors(round)) == set(range(2 * NODES)) - lost
    assert about["seconds"] <= ten.deadline + MORE and about["failures"]
    ten.check_bits(round)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("step", "when"), [("MASKED", "after"), ("UNMASK", "before"), ("UNMASK", "after")]
)
def test_the_server_is_killed_in_the_middle_of_a_sum(ten, step, when):
    """Before anything was unmasked the round is made again, with the same updates. Afterwards it
    is withheld: no client opens a second sum of a round."""
    ten.all_there()
    ten.plan_server(step, when, "SIGKILL")
    assert ten.processes["server"].wait(60) == -signal.SIGKILL
    round, before = max(ten.made) + 1, ten.updates()
    assert {made for _, made in before} == {round}
    revealed = ten.released() == {round}
    assert revealed or max(ten.released()) < round
    assert revealed == (step == "UNMASK")
    ten.start_module("server", "faulty_server")
    about = ten.wait_made(round)
    print(f"server, {step} {when}: {about}")
    if step == "MASKED":
        assert about["answered"] >= 14
        ten.check_bits(round)
    else:
        assert about["answered"] == 0 and about["failures"]["released"] == NODES
        np.testing.assert_array_equal(ten.model(round + 1), ten.model(round))
    ten.all_there()


@pytest.mark.faults
def test_no_update_is_in_the_memory_the_database_or_the_logs_of_the_server(ten):
    if not can_read_memory(ten.processes["server"].pid):
        pytest.skip("this machine forbids reading the memory of other processes")
    ten.all_there()
    search, places = ten.search(), set()
    for step, when in STOPS:
        with ten.stopped(step, when) as pids:
            now = ten.updates()
            search.add(now)
            searched = {name for name, _ in search.patterns.values()}
            assert searched >= now.keys() and len(now) == 2 * NODES
            for name, pid in pids.items():
                assert search.memory(pid) == set(), f"{name}, {step} {when}"
                places.add(name)
            assert search.files(ten.folder / "state") == set(), f"{step} {when}"
            if step == "UNMASK":  # what the server may know is found: the sum
                total = sum(search.words(*update) for update in now.values())
                known = ten.search().add_words("sum", total)
                assert known.memory(pids["server"]) == {("sum", "fixed point")}
    ten.all_there()
    print(f"{search.looked:,} bytes, {len(search.patterns):,} patterns, {places}")
    assert search.looked > 10**8 and len({round for _, round in searched}) >= 2
    assert search.text(ten.log("server").encode()) == set()


@pytest.mark.faults
def test_the_search_finds_updates_where_they_are(tmp_path):
    """Without a channel the server gets every update. Other formats are planted in its memory."""
    e = Experiment(clients=6, **SETTINGS)
    with Faulty(tmp_path, e, nodes=3, server={"deadline": 6.0, **SERVER}) as here:
        here.begin()
        if not can_read_memory(here.processes["server"].pid):
            pytest.skip("this machine forbids reading the memory of other processes")
        with here.stopped("LEARN", "after") as pids:
            now = here.updates()
            search = here.search().add(now)
            found = {name: search.memory(pid) for name, pid in pids.items()}
            found["files"] = search.files(here.folder / "state")
            print({name: sorted({kind for _, kind in hits}) for name, hits in found.items()})
            assert {(name, "float32") for name in now} <= found["server"]
            assert found["SuperLink"] and found["files"]
        number, (update, weight) = next(iter(now.items()))
        double, words = update.astype("<f8"), search.words(update, weight)
        (here.folder / "server.plant").write_bytes(
            b"..." + double[3:7].tobytes() + b"." + words[-4:].tobytes() + update[5:9].tobytes()
        )
        with here.stopped("LEARN", "after") as pids:
            found = search.memory(pids["server"])
            assert {(number, kind) for kind in FORMATS} <= found


@pytest.mark.faults
def test_every_round_was_exact_or_withheld_and_no_round_was_opened_twice(ten):
    """After all that the tests above did to it."""
    ten.all_there()
    last = max(ten.made)
    for round in range(last):
        ten.check_bits(round)
    assert all(len(terms) <= 1 for terms in ten.unmasked().values())
    assert len(ten.unmasked()) > 10
