"""What programs ask a running process: /healthz and /metrics; and the metrics of a server."""

import math
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import prometheus_client.parser as parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.core.system.log import Event
from foltr.deployment.metrics import exposition, gauge
from foltr.deployment.monitoring import Health, Monitor, ask_health
from foltr.deployment.server.board import Board
from foltr.deployment.server.health import epsilon, families
from foltr.deployment.server.status_page import status_page
from foltr.privacy.text import epsilon_text


def samples(text):
    """(name, labels) -> value of every sample."""
    found = {}
    for family in parser.text_string_to_metric_families(text):
        for each in family.samples:
            key = each.name, *sorted(each.labels.items())
            assert key not in found
            found[key] = each.value
    return found


def board():
    made = Board("0123456789ab", 10, 4, fewest=2)
    common = {"asked": 4, "bytes": [2_000, 1_500], "withheld": 0}
    made.add_round({**common, "round": 0, "answered": 4, "failures": {}, "seconds": 0.3})
    failed = {"late": 2, 'odd"\n': 1}
    more = {"ndcg": 0.4, "best": 0.5, "refused": True}
    made.add_round(
        {**common, "round": 1, "answered": 1, "failures": failed, "seconds": 7.0, **more}
    )
    made.nodes = {"a": "connected", "b": "refused: why", "c": "away", "d": "revoked"}
    made.epsilon = {"the server": "1,234", "observers of models": "no limit"}
    return made


def test_the_metrics_of_a_server():
    found = samples(exposition(families(board())))
    expected = {
        ("foltr_round",): 2,
        ("foltr_rounds_planned",): 10,
        ("foltr_rounds_total",): 2,
        ("foltr_rounds_withheld_total",): 1,
        ("foltr_models_not_adopted_total",): 1,
        ("foltr_clients_asked_total",): 8,
        ("foltr_clients_answered_total",): 5,
        ("foltr_failures_total", ("kind", "late")): 2,
        ("foltr_failures_total", ("kind", 'odd"\n')): 1,
        ("foltr_message_bytes_total", ("direction", "sent")): 4_000,
        ("foltr_message_bytes_total", ("direction", "received")): 3_000,
        ("foltr_round_seconds_bucket", ("le", "0.5")): 1,
        ("foltr_round_seconds_bucket", ("le", "10")): 2,
        ("foltr_round_seconds_sum",): 7.3,
        ("foltr_nodes", ("state", "connected")): 1,
        ("foltr_nodes", ("state", "refused")): 1,
        ("foltr_heldout_ndcg",): 0.4,
        ("foltr_heldout_ndcg_best",): 0.5,
        ("foltr_epsilon_spent", ("adversary", "the server")): 1234,
        ("foltr_epsilon_spent", ("adversary", "observers of models")): math.inf,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_no_name_of_a_node_is_in_the_metrics():
    made = board()
    made.nodes = {"clinic-a": "connected", "clinic-b": "refused: client 17 of clinic-b"}
    made.note("clinic-b: failed: client 17")
    text = exposition(families(made))
    assert "clinic" not in text and "client 17" not in text


def test_before_the_first_round():
    found = samples(exposition(families(Board("x", 10, 4))))
    assert found["foltr_round",] == 0 and ("foltr_heldout_ndcg",) not in found


@given(st.floats(1e-9, 1e12) | st.just(math.inf) | st.just(0.0))
def test_an_epsilon_is_read_as_it_is_shown_and_never_too_small(value):
    read = epsilon(epsilon_text(value))
    assert read >= value * (1 - 1e-8) and (math.isinf(read) or read <= 1.3 * value + 0.011)


# ---- health


def test_a_process_is_healthy_until_a_check_fails():
    health = Health({"disk": lambda: None}, lambda: {"round": 3})
    assert health.answer() == (200, '{"status":"ok","round":3,"problems":{}}')
    health.checks["link"] = lambda: "it is down"
    assert health.problems() == {"link": "it is down"} and health.answer()[0] == 503
    assert '"problems":{"link":"it is down"}' in health.answer()[1]


def test_a_check_that_cannot_be_made_is_a_problem():
    def fails():
        raise FileNotFoundError(2, "No such file", "x")

    assert Health({"disk": fails}).problems() == {"disk": "cannot be checked: No such file"}


def test_a_page_answers_programs():
    reason = [None]
    health = Health({"link": lambda: reason[0]}, lambda: {"doing": "in a round"})
    monitor = Monitor(health, lambda: [gauge("foltr_x", "X.", 1.0)])
    with status_page(Board("x", 10, 4), monitor=monitor) as address:
        assert ask_health(address) == (True, "status ok, doing in a round")
        found = fetched(f"{address}metrics")
        assert found["foltr_x",] == 1 and found["foltr_healthy",] == 1
        assert found["process_cpu_seconds_total",] > 0
        assert any(name == "foltr_build_info" for name, *_ in found)
        reason[0] = "the SuperLink is down"
        assert ask_health(address) == (False, "link: the SuperLink is down")
        assert fetched(f"{address}metrics")["foltr_healthy",] == 0
    able, told = ask_health(address)
    assert not able and "nothing answers at" in told


def fetched(address):
    import urllib.request

    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return samples(answer.read().decode())


@pytest.mark.parametrize("body", [b"", b"[1]", b"<html>", b"[" * 90_000])
@pytest.mark.parametrize("status", [200, 500])
def test_another_server_at_the_address(body, status):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        Thread(target=server.handle_request, daemon=True).start()
        able, told = ask_health(f"http://127.0.0.1:{server.server_port}/")
        assert not able and told


def test_notes_may_be_events():
    made, told = board(), []
    made.telling(told.append)(Event("it happened", "note", n=1))
    assert made.notes[-1].endswith(" it happened") and told[0].fields == {"n": 1}


def test_a_certificate_that_cannot_be_read_is_a_problem_and_no_error(tmp_path):
    def fails():
        raise Mistake("bad.pem is no certificate")

    health = Health({"certificate": fails})
    assert health.problems() == {"certificate": "cannot be checked: bad.pem is no certificate"}
    assert health.answer()[0] == 503


def test_the_time_of_the_last_round_outlives_a_restart():
    made = board()
    about = {**made.history[-1], "round": 2}
    made.add_round({**about, "ended": 1_700_000_000.0})
    assert made.changed == 1_700_000_000.0
    made.add_round({**about, "round": 3})  # from a log without times
    assert made.changed == 1_700_000_000.0
