"""The model of `foltr plan`: hand-worked numbers, and what must hold for any workload."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.errors import Mistake
from foltr.deployment.planning.limits import federations, first_break, limits
from foltr.deployment.planning.model import DAY, Constants, Plan, Workload, measured
from foltr.deployment.planning.text import Prices, as_json, number, rounded, seconds, size
from foltr.secure_sum.terms import degree_and_quorum

NOTHING = Constants(**{field.name: 0.0 for field in fields(Constants)})
LOAD = Workload(devices=1_000, rounds=10.0, asked=100, parameters=46, words=46)


def costing(**constants):
    return replace(NOTHING, **constants)


def test_a_round_by_hand():
    """100 devices answer one ask through one gateway."""
    plan = Plan(LOAD, costing(gateway_step=1.0, gateway_answer=0.5, gateway_roll=0.001), given=1)
    assert plan.gateway_round(1) == pytest.approx(1.0 + 100 * 0.5 + 1_000 * 0.001)
    plan = Plan(LOAD, costing(server_step=1.0, server_answer=0.5, superlink_step=2.0), given=3)
    assert plan.server_round == pytest.approx(3 * 1.0 + 100 * 0.5)
    assert plan.superlink_round == pytest.approx(2 * 3 * 2.0)  # the roll, and the ask


def test_a_secure_sum_has_four_asks_and_neighbours():
    load = replace(LOAD, fewest=2 / 3)
    degree = degree_and_quorum(100, 67, False)[0]
    assert (load.steps, load.degree) == (4, degree) == (4, 99)
    plan = Plan(load, costing(gateway_answer=0.5, server_neighbour=0.25, superlink_step=1.0), 1)
    assert plan.gateway_round(1) == pytest.approx(4 * 100 * 0.5)
    assert plan.server_round == pytest.approx(100 * 99 * 0.25)
    assert plan.superlink_round == pytest.approx(5.0)
    costs = costing(device_answer=1.0, device_sum=2.0, device_neighbour=0.5, device_mask=0.01)
    assert Plan(load, costs).device_cpu == pytest.approx(1 + 2 + 99 * (0.5 + 46 * 0.01))


def test_rewards_are_drawn_again_on_the_server():
    plan = Plan(replace(LOAD, rewards=True), costing(server_draw=0.001), 1)
    assert plan.server_round == pytest.approx(100 * 46 * 0.001)


def test_requests_without_an_ask_by_hand():
    """200 devices hold a connection for 25 s, 800 come every 60 s."""
    plan = Plan(LOAD, costing(gateway_idle=0.01, gateway_connection=0.1, idle_wire=10.0,
                              connection_wire=100.0))  # fmt: skip
    assert (plan.kept, plan.requests) == (200, 8)
    assert plan.polls == pytest.approx(800 / 60)
    assert plan.idle_cores == pytest.approx(0.08 + 80 / 60)
    assert plan.idle_day == pytest.approx(DAY * (80 + 8_000 / 6))


def test_gateways_are_as_many_as_the_scarcest_needs():
    plenty = replace(LOAD, devices=1_000_000, asked=1_000)
    connections = Plan(replace(plenty, connected=0.9), NOTHING)
    assert (
        connections.reasons["connections"] == connections.gateways == 57
    )  # (900,000 + 1,667) / 16,000
    assert connections.why == "connections"
    busy = Plan(plenty, costing(gateway_answer=1.0))  # 1,000 s in 0.8 * 100 s, half a core each
    assert busy.reasons["CPU"] == busy.gateways == 25
    frames = Plan(replace(LOAD, devices=10**6, asked=10**6, words=46), NOTHING)
    row = 4 + 8 + 4 * 46  # the number, the weight and the update of a client
    assert frames.reasons["size of frames"] == -(-(10**6) // ((64_000_000 - 129) // row))


def test_memory_by_hand():
    """Two gateways have 200 connections and 1,000 enrolled devices; 100 devices answer."""
    frames = LOAD.traffic.of_device()
    costs = costing(gateway_base_memory=100.0, gateway_connection_memory=0.1, device_memory=0.01,
                    gateway_frame_memory=1e-3, server_base_memory=200.0,
                    server_answer_memory=0.5, server_byte_memory=1e-3)  # fmt: skip
    plan = Plan(LOAD, costs, given=2)
    assert plan.gateway_memory == pytest.approx(100 + (20 + 10 + 0.1 * frames.both) / 2)
    assert plan.server_memory == pytest.approx(200 + 50 + 0.1 * frames.up)


def test_a_round_lasts_until_the_last_device_has_asked():
    costs = costing(latency=0.5, superlink_step=1.0, superlink_second=0.1)
    polled, held = Plan(LOAD, costs, 1), Plan(replace(LOAD, connected=1.0), costs, 1)
    assert held.round_seconds == pytest.approx(2 * 0.5 + 2.0)  # two exchanges
    assert polled.round_seconds == pytest.approx(60.0 + held.round_seconds)
    assert polled.superlink_round == pytest.approx(2.0 + 60.0 * 0.1)
    assert polled.superlink_work == held.superlink_round == pytest.approx(2.0)


def test_money_is_cores_and_bytes():
    plan = Plan(LOAD, costing(http_down=1e6), given=2)
    cores = 24 * 4 * 0.5  # two gateways, the server, the SuperLink
    sent = 10 * 100 * (1e6 + plan.load.traffic.of_device().down) / 1e9
    assert plan.money_day(0.5, 2.0) == pytest.approx(cores + 2.0 * sent)
    assert plan.money_day(None, None) is None


workloads = st.builds(
    lambda devices, share, **more: Workload(
        devices, asked=max(2, round(share * devices)), words=more["parameters"], **more
    ),
    devices=st.integers(10, 10**9),
    share=st.floats(0.001, 1.0),
    rounds=st.floats(0.1, 1_000),
    parameters=st.integers(1, 10_000),
    fewest=st.sampled_from([None, 2 / 3]),
    connected=st.floats(0, 1),
    poll=st.floats(1, 1e5),
)


@given(workloads)
def test_more_devices_cost_no_less(load):
    costs = measured().constants
    more = replace(load, devices=2 * load.devices)
    one, two = Plan(load, costs), Plan(more, costs)
    assert two.gateways >= one.gateways
    assert two.bytes_day >= one.bytes_day and two.gateway_disk >= one.gateway_disk
    for name, value in one.cpu_day.items():
        assert two.cpu_day[name] >= value * (1 - 1e-9)


@given(workloads)
def test_a_plan_is_finite_and_its_limits_are_sorted(load):
    plan = Plan(load, measured().constants)
    found = limits(plan, 16.0)
    assert [limit.used for limit in found] == sorted((limit.used for limit in found), reverse=True)
    assert federations(plan, 16.0) >= 1
    made = as_json(plan, 16.0, Prices(0.1, 0.1))
    assert set(made["exceeded"]) == {limit.name for limit in found if limit.used > 1.0}
    assert 0.0 < made["price_per_day"] < 1e18


def test_ten_million_devices_are_the_most_of_a_federation():
    seldom = {"rounds": 0.5, "poll": 86_400.0, "deadline": 200_000.0, "connected": 0.0}
    load = replace(LOAD, devices=10**8, asked=1_000, **seldom)
    plan = Plan(load, costing(gateway_answer=1e-6))
    over = [limit.name for limit in limits(plan, 16.0) if limit.used > 1.0]
    assert over == ["devices of a federation"]
    assert federations(plan, 16.0) == 10
    broken = first_break(plan, 16.0)
    assert broken.limit.name == "devices of a federation"
    assert 10**7 < broken.devices <= 1.01 * 10**7


def test_the_first_break_is_exceeded_there_and_not_much_before():
    plan = Plan(LOAD, measured().constants)
    broken = first_break(plan, 16.0)
    assert broken.limit.used > 1.0
    share = LOAD.asked / LOAD.devices
    before = round(0.98 * broken.devices)
    just = replace(LOAD, devices=before, asked=round(share * before))
    assert limits(Plan(just, measured().constants), 16.0)[0].used <= 1.0


def test_devices_that_poll_need_a_deadline_that_waits_for_them():
    late = Plan(replace(LOAD, poll=100.0, deadline=60.0), NOTHING)
    (limit,) = [each for each in limits(late, 16.0) if each.used > 1.0]
    assert limit.name == "seconds until a polling device has asked"
    assert "raise deadline to 125 s" in limit.way_out
    held = Plan(replace(LOAD, connected=1.0, poll=100.0, deadline=60.0), NOTHING)
    assert limits(held, 16.0)[0].used <= 1.0


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("devices", 0, "devices must be >= 1, got 0"),
        ("asked", 1_001, "asked must be in 1 .. 1000 (devices), got 1001"),
        ("rounds", 0.0, "rounds a day must be > 0, got 0"),
        ("connected", 1.5, "0 .. 1, got 1.5"),
        ("poll", 0.5, "poll must be >= 1 second, got 0.5"),
        ("deadline", 0.0, "deadline must be > 0 seconds, got 0"),
        ("busy", 0.0, "(0, 1], got 0"),
        ("connections", 0, "connections must be >= 1, got 0"),
        ("searches", 0, "searches must be >= 1, got 0"),
    ],
)
def test_impossible_workloads_are_refused(field, value, told):
    with pytest.raises(Mistake) as error:
        replace(LOAD, **{field: value})
    assert told in str(error.value)


def test_a_secure_sum_of_one_is_refused():
    with pytest.raises(Mistake, match="at least 2 devices"):
        replace(LOAD, asked=1, fewest=2 / 3)


def test_numbers_are_short():
    assert [number(x) for x in (0.00123456, 12.3456, 123.4, 123_456, 1e8)] == [
        "0.00123", "12.3", "123", "123,000", "100,000,000"
    ]  # fmt: skip
    assert [size(x) for x in (0.0, 12, 1_500, 2.5e12, 5e15)] == [
        "0 B", "12 B", "1.5 kB", "2.5 TB", "5,000 TB"
    ]  # fmt: skip
    assert [seconds(x) for x in (0.0001, 0.5, 12.0)] == ["0.1 ms", "500 ms", "12 s"]
    assert rounded(7_345_678) == "7,300,000"
