"""The parts of `benchmarks/gateway.py` that start no process."""

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs foltr[deploy]")
pytest.importorskip("httptools", reason="needs foltr[deploy]")

import gateway_page
from gateway import PLAIN, SUMS
from gateway_devices import Crowd, Devices, MadeUp, answering
from gateway_federation import Moment
from gateway_fit import stored_points
from gateway_parts import an_ask
from gateway_tables import all_lines, parts_lines

from foltr.core.scoring import numbered
from foltr.deployment.gateway.steps import Step
from foltr.deployment.planning.model import FILE
from foltr.deployment.planning.traffic import example_message
from foltr.deployment.protocol.agreement import Agreement
from foltr.deployment.protocol.frames import Frame, Kind, read_updates, write_updates
from foltr.experiment import Experiment


@pytest.mark.parametrize("case", range(3))
def test_made_up_answers_are_taken_by_a_gateway(case):
    e = PLAIN[case].experiment(5, 3)
    agreed = Agreement(e.ranker, e.learner, numbered(46), 5, 1, e.learner.sessions, 3)
    ask = an_ask(agreed, 5)
    step = Step(ask, agreed, {})
    message, weight = example_message(e.learner, e.ranker, 46)
    answer = answering(write_updates(message[None], np.array([weight])))(step.ask_for(3))
    frame = step.checked(3, answer)
    assert frame == replace(ask, kind=Kind.LEARNED, clients=(3,), payload=frame.payload)
    updates, weights = read_updates(frame.payload, 1)
    assert (updates[0] == message).all() and weights.tolist() == [e.learner.sessions]


def test_a_moment_since_another():
    counters = {"answered": 10, "connected": 5, "thinking": 0.5, "last": "text"}
    before = Moment(100.0, {"gateway": 1.0, "server": 2.0}, 1_000, 3, counters)
    later = {"answered": 30, "connected": 7, "thinking": 2.0, "last": "other"}
    after = Moment(110.0, {"gateway": 4.0, "server": 2.5}, 5_000, 8, later)
    used = after.since(before)
    assert (used.time, used.loopback, used.rounds) == (10.0, 4_000, 5)
    assert used.cpu == {"gateway": 3.0, "server": 0.5}
    assert used.devices == {"answered": 20, "connected": 7, "thinking": 1.5}


def test_a_case_says_what_the_model_must_know():
    about = [case.about(400) for case in (*PLAIN, *SUMS)]
    assert [each["parameters"] for each in about] == [46, 3072, 46, 46, 3072]
    assert [each["words"] for each in about] == [46, 3072, 3, 46, 3072]
    assert [each["steps"] for each in about] == [1, 1, 1, 4, 4]
    assert [each["degree"] for each in about] == [0, 0, 0, 90, 90]
    assert [each["rewards"] for each in about] == [False, False, True, False, False]


def test_the_last_devices_keep_their_connection():
    e = Experiment()
    agreed = Agreement(e.ranker, e.learner, numbered(46), 5, 1, e.learner.sessions, 3)
    crowd = Crowd(Devices("none", 1, None, "invitation", 5, 2), agreed)
    crowd.devices = [None] * 5
    assert [crowd.keeps(place) for place in range(5)] == [False, False, False, True, True]
    crowd.obey(["held", "4"])
    crowd.obey(["poll", "7"])
    assert [crowd.keeps(place) for place in range(5)] == [False, True, True, True, True]
    assert crowd.poll == 7.0


def test_a_made_up_engine_answers_for_all():
    answers = MadeUp(np.arange(3, dtype=np.float32), 4.0).collect(None, np.array([5, 9]))
    assert answers.arrived.clients.tolist() == [5, 9]
    assert answers.arrived.updates.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_tables_show_what_is_stored():
    content = json.loads(FILE.read_text())
    text = "\n".join(all_lines(content))
    answer = content["parts"]["answer"]["gateway"]
    assert f"{'gateway':34} {1e3 * answer:8.3f}" in text
    for point in stored_points():
        assert f"{point.name:24} {point.devices:8,} {point.seconds:8.2f}" in text


def test_parts_add_up_to_the_answer():
    """The rest is what the parts leave."""
    content = json.loads(FILE.read_text())["parts"]
    lines = parts_lines(content)
    first, last = lines.index("of the gateway's"), lines.index("other CPU of the gateway in ms")
    parts = [float(line[36:46]) for line in lines[first + 1 : last]]
    assert sum(parts) == pytest.approx(1e3 * content["answer"]["gateway"], abs=0.01)


def test_a_page_gets_what_its_commands_print(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(
        "words\n\n```sh\nfoltr plan --devices 1e4 --json\n```\n\n```text\nold\n```\nmore\n"
    )
    monkeypatch.setattr(gateway_page, "PAGE", page)
    gateway_page.rewrite()
    head, _, rest = page.read_text().partition("```text\n")
    told, _, tail = rest.partition("```\n")
    assert head.startswith("words") and tail == "more\n"
    assert json.loads(told)[0]["devices"] == 10_000


def test_the_crowd_is_a_frame_of_one_client():
    """`answering` copies the header of an ask without parsing it."""
    e = Experiment()
    agreed = Agreement(e.ranker, e.learner, numbered(46), 9, 1, e.learner.sessions, 3)
    text = Step(an_ask(agreed, 9), agreed, {}).ask_for(8)
    assert Frame.from_bytes(answering(b"payload")(text)) == Frame.from_bytes(text).answer(
        Kind.LEARNED, (8,), b"payload"
    )
