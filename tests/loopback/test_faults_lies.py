"""Nodes that lie or fail: what they send is left out and counted, and the result is that of a
simulation without it."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")

from faulty import OWN, at_gate, deployed, experiment, missed, open_gate, same, start, without

LAST = OWN["node-2"]
# fault of node-2, its clients that are missing, how it is counted
LIES = (
    ("garbage", LAST, {"malformed": 1}),
    ("nan", LAST, {"message": 4}),
    ("shape", LAST, {"message": 4}),
    ("huge", LAST, {"message": 4}),
    ("old", LAST, {"malformed": 1}),
    ("another", LAST, {"malformed": 1}),
    ("version", LAST, {"malformed": 1}),
    ("bulky", LAST, {"failed": 1}),
    ("kind", LAST, {"malformed": 1}),
    ("refusal", LAST, {"malformed": 1}),
    ("crash", LAST, {"failed": 1}),
    ("raise", LAST[-1:], {}),
    ("twice", (), {}),
    ("forged", (), {}),
    ("honest", (), {}),
)


@pytest.mark.loopback
def test_a_node_that_tells_every_lie(tmp_path, watched):
    """And no process of the federation looks for anything outside this machine."""
    e = experiment(rounds=len(LIES))
    words = ",".join(f"{name}@{t}" for t, (name, _, _) in enumerate(LIES))
    with deployed(tmp_path, e, max_bytes=1_000_000) as here:
        start(here, node_2=words).wait_done()
        for about, (name, gone, kinds) in zip(here.rounds(), LIES, strict=True):
            assert about["answered"] == 12 - len(gone), (name, here.everything())
            assert about["failures"] == kinds, (name, here.everything())
        same(here, without(e, {t: gone for t, (_, gone, _) in enumerate(LIES)}))
        log, own = here.log("server"), here.log("node-2")
        assert "node-2: malformed: version 9 of the protocol" in log and "update it" in log
        assert "secret" not in log and "secret of this client" in own  # told on its own side only
        assert "as another node: 403" in own
        assert "an answer was larger than the server accepts" in own
    seen = watched()
    assert {line.split()[1] for line in seen} <= {"localhost", "127.0.0.1", "::1"}, set(seen)
    for program in (
        "foltr serve",
        "lying_node",
        "foltr node",
        "foltr.deployment.flower.superlink",
    ):
        assert program == "foltr.deployment.flower.superlink" or any(
            program in line for line in seen
        )


@pytest.mark.faults
@pytest.mark.parametrize("rule", ["Krum(malicious=4)", "Median()"])
def test_a_liar_in_every_round(tmp_path, modules, rule):
    e = experiment(rounds=6, aggregator=rule)
    words = ",".join(f"nan@{t}" for t in range(6))
    with deployed(tmp_path, e) as here:
        start(here, node_2=words).wait_done()
        same(here, without(e, dict.fromkeys(range(6), LAST)))


@pytest.mark.faults
def test_the_guard_refuses_a_bad_model(tmp_path, modules):
    """The round of the poisoned updates is as if nobody had answered, and a node whose clock is
    wrong is told so."""
    e, guard = experiment(rounds=7), {"holdout": "Synthetic(queries=40)", "tolerance": 0.1}
    with deployed(tmp_path, e, **guard) as here:
        start(here, node_0="gate@2", node_1="clock@10", node_2="poison@4")
        assert here.processes["node-1"].wait(60) == 2
        here.start("node-1")
        at_gate(here, 2)
        open_gate(here, 2)
        here.wait_done()
        told = here.log("node-1")
        assert "this clock is 1" in told and "s ahead of the server's: set it (NTP)" in told
        about = here.rounds()
        assert [line["refused"] for line in about] == [t == 4 for t in range(7)], about
        assert np.array_equal(here.model(5), here.model(4))
        lost = missed(here, "node-1")
        same(here, without(e, {**lost, 4: range(12)}))
