"""Constants of the model: found again from figures that the model made, and the stored ones beside
the stored figures."""

import json
from dataclasses import asdict, fields, replace

import pytest
from gateway_fit import (
    Point,
    constants_of,
    crowd_load,
    fitted,
    predicted,
    rolls_of,
    short,
    stored_points,
    traffic_of,
)
from hypothesis import given
from hypothesis import strategies as st

from foltr.deployment.planning.model import DAY, FILE, FRAME_BYTES, Constants, Plan, measured

THREE = ("gateway", "server", "superlink")
# largest relative error of the stored model at a stored point
TOLERANCE = {"gateway": 0.5, "server": 0.5, "superlink": 0.5, "devices": 0.5, "seconds": 0.5}


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3),
    st.lists(st.tuples(*[st.floats(0.1, 1e4)] * 3), min_size=6, max_size=12),
)
def test_exact_figures_give_their_constants_back(constants, rows):
    values = [sum(a * b for a, b in zip(row, constants, strict=True)) for row in rows]
    found = fitted(rows, values)
    again = [sum(a * b for a, b in zip(row, found, strict=True)) for row in rows]
    assert again == pytest.approx(values, rel=1e-5)
    assert min(found) >= 0.0


def test_errors_are_relative():
    """One constant for the values 1 and 100 of the rows 1 and 50: it minimises (c - 1)^2 +
    (c/2 - 1)^2, so c = (1 + 1/2) / (1 + 1/4)."""
    assert fitted([[1], [50]], [1, 100]) == pytest.approx([1.2])


def made_of(costs, point):
    """A point at which the model with these constants is right."""
    for _ in range(20):  # a SuperLink that waits needs CPU, and that takes time
        found = predicted(point, costs)
        point = point._replace(seconds=found["seconds"])
    cpu = {name: found[name] for name in (*THREE, "devices")}
    sizes, n = traffic_of(point).of_device(), point.devices
    return point._replace(
        cpu=cpu,
        seconds=found["seconds"],
        thinking=found["thinking"],
        up=n * (sizes.up + point.steps * costs.http_up),
        down=n * (sizes.down + point.steps * costs.http_down),
    )


def test_figures_that_the_model_made_give_its_constants_back():
    content = json.loads(FILE.read_text())
    cpu = ("gateway_", "server_", "superlink_", "device_", "latency", "http_")
    costs = measured().constants
    costs = replace(costs, device_mask=1e-8, server_step=0.004, server_answer=5e-6,
                    server_byte=2e-9, server_draw=1e-7, server_neighbour=2e-5)  # fmt: skip
    made = [made_of(costs, point)._asdict() for point in stored_points()]
    device = {
        name: [
            costs.device_answer + n * (costs.device_search + d * costs.device_number)
            for n in (4, 40)
        ]
        for name, d in (("PDGD linear", 46), ("PDGD MLP", 3072), ("ES linear", 46))
    }
    again = constants_of({**content, "slopes": made, "device": device})["constants"]
    for name, value in asdict(costs).items():
        if name.startswith(cpu) and not name.endswith(("memory", "disk")):
            assert again[name] == pytest.approx(value, rel=0.01, abs=1e-12), name
    assert again["device_search"] == pytest.approx(costs.device_search, rel=0.01)


def test_the_stored_constants_are_those_of_the_stored_figures():
    """`python benchmarks/gateway.py fit` was run after the last measurement."""
    content = json.loads(FILE.read_text())
    again = constants_of(content)["constants"]
    for name, value in content["constants"].items():
        assert again[name] == pytest.approx(value, rel=0.01, abs=1e-12), name


@pytest.mark.parametrize("point", stored_points(), ids=lambda p: f"{p.name} {p.devices}")
def test_the_stored_constants_reproduce_the_stored_figures(point):
    """A SuperLink needs more CPU for each byte of a frame that is larger than 64 MB. `foltr plan`
    never plans such frames."""
    found = predicted(point, measured().constants)
    huge = point.frames_up > FRAME_BYTES
    for name in ("gateway", "server", "devices", *(() if huge else ("superlink",))):
        assert found[name] == pytest.approx(point.cpu[name], rel=TOLERANCE[name]), name
    if not huge:
        assert found["seconds"] == pytest.approx(point.seconds, rel=TOLERANCE["seconds"])


def test_the_stored_constants_reproduce_the_crowd():
    """Devices that are mostly idle: what a large federation is."""
    crowd = json.loads(FILE.read_text())["crowd"]
    plan = Plan(crowd_load(crowd), measured().constants, given=1)
    processes = {"gateway": "gateways", "server": "server", "superlink": "SuperLink"}
    for process, name in processes.items():
        share = plan.cpu_day[name] / DAY
        assert share == pytest.approx(crowd["cpu share"][process], rel=TOLERANCE[process]), name
    assert plan.gateway_memory == pytest.approx(crowd["memory"]["gateway"], rel=0.2)
    assert plan.gateway_disk == pytest.approx(crowd["disk"]["gateway"], rel=0.2)
    requests = plan.requests + plan.polls
    assert requests == pytest.approx(crowd["requests per second"], rel=0.05)


def test_the_figures_are_of_the_sizes_that_the_page_names():
    sizes = {
        name: [p.devices for p in stored_points() if p.name == name]
        for name in ("PDGD linear", "PDGD MLP", "ES linear")
    }
    assert set(map(tuple, sizes.values())) == {(10, 100, 1_000, 10_000)}
    assert {p.devices for p in stored_points() if p.degree} >= {10, 100, 400}


def test_the_frames_that_were_measured_are_those_of_the_formulas():
    for point in stored_points():
        n = point.devices
        expected = traffic_of(point).of_gateway(n, n, rolls_of(point))
        assert point.frames_down == pytest.approx(expected.down, rel=0.02), point.name
        assert point.frames_up == pytest.approx(expected.up, rel=0.02), point.name


def test_every_constant_is_a_number_and_not_negative():
    costs = measured().constants
    assert all(getattr(costs, field.name) >= 0.0 for field in fields(Constants))
    assert costs.gateway_answer > 0 and costs.superlink_step > 0 and costs.gateway_connection > 0


def test_numbers_are_stored_with_eight_digits():
    value = {"a": 1.23456789123, "b": [0.000123456789123, 7], "c": "text", "d": None}
    assert short(value) == {"a": 1.2345679, "b": [0.00012345679, 7], "c": "text", "d": None}


def test_a_point_keeps_its_fields():
    point = stored_points()[0]
    assert Point(**json.loads(json.dumps(point._asdict()))) == point
