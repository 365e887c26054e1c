"""`foltr plan`."""

import json

import pytest
from typer.testing import CliRunner

from foltr.cli.app import app

run = CliRunner()


def planned(*words):
    done = run.invoke(app, ["plan", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_plan_is_a_table_with_a_column_for_each_number():
    told = planned("--devices", "1e4,1e6", "--rounds-per-day", "24")
    rows = {line[:36].strip(): line[36:].split() for line in told.splitlines()}
    assert rows["devices"] == ["10,000", "1,000,000"]
    assert rows["asked in a round"] == ["417", "41,667"]  # once a day, in 24 rounds
    assert "price of a day" not in rows
    assert "All else is computed from it." in told


def test_prices_give_a_price():
    told = planned("--devices", "1e4", "--price-core-hour", "1", "--gateways", "1",
                   "--price-gb-egress", "0")  # fmt: skip
    (row,) = [line for line in told.splitlines() if line.startswith("price of a day")]
    assert row.split()[-1] == "72"  # three cores for 24 hours


def test_too_many_devices_are_told_what_to_do():
    told = planned("--devices", "1e8")
    assert "exceed these limits:" in told
    assert "divide the devices among several federations" in told
    assert "is exceeded first, at about" in told


def test_too_few_gateways_are_told_whatever_else_is_wrong():
    told = planned("--devices", "1e8", "--gateways", "10")
    assert "gateways, because of CPU: " in told and "10 possible. Way out: --gateways" in told
    (one,) = json.loads(planned("--devices", "1e8", "--gateways", "10", "--json"))
    assert "gateways, because of CPU" in one["exceeded"]


def test_what_does_not_depend_on_the_number_of_devices_is_not_divided():
    """A poll that is longer than a round: several federations would not help."""
    told = planned("--devices", "1e4", "--poll", "7200", "--connected", "0.01")
    rows = {line[:36].strip(): line[36:].split() for line in told.splitlines()}
    assert rows["federations"] == ["1"]
    assert "seconds until the last device has polled: 7,200 needed, 3,600 possible" in told
    assert "at about 2 devices" not in told


def test_devices_in_a_round_that_are_given_do_not_grow():
    told = planned("--devices", "1e4,1e7", "--asked", "1000")
    assert "devices asked in a round" not in told.partition("is exceeded first")[2]


def test_gateways_can_do_their_work_until_the_next_round():
    """A long deadline does not mean that they have so much time."""
    told = planned("--devices", "1e6", "--connected", "1", "--connections", "1000000",
                   "--rounds-per-day", "1440", "--times-per-day", "1000", "--deadline", "3600",
                   "--busy", "0.9")  # fmt: skip
    rows = {line[:36].strip(): line[36:].split() for line in told.splitlines()}
    assert float(rows["gateways, one core each"][0]) > float(rows["cores that they keep busy"][0])


def test_json_has_the_same_numbers():
    (one,) = json.loads(planned("--devices", "1e6", "--asked", "1000", "--json"))
    assert (one["devices"], one["asked"]) == (1_000_000, 1_000)
    assert one["gateways"] == max(one["gateways_needed"].values())
    assert one["cpu_per_day"]["gateways"] > 24 * one["cpu_per_round"]["gateways"]


def test_the_message_is_that_of_the_learner_and_the_ranker():
    def up(*words):
        (one,) = json.loads(planned("--devices", "1e4", "--json", *words))
        return one["device_bytes_per_round"]["up"]

    linear, wide = up(), up("--ranker", "MLP(hidden=10)")
    assert wide - linear == pytest.approx(4 * (10 * 48 - 46))
    assert up("--learner", "ES()") - linear == pytest.approx(4 * (3 - 46))
    assert up("--features", "136") - linear == pytest.approx(4 * 90)
    assert up("--channel", "SecureSum()") > 5 * linear


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--devices", "many"], "--devices 'many': give whole numbers from 2 to 1e10"),
        (["--devices", "1.5"], "--devices '1.5'"),
        (["--devices", "1e4,-3"], "--devices '-3'"),
        (["--rounds-per-day", "0"], "--rounds-per-day must be > 0, got 0"),
        (["--times-per-day", "30"], "30 times a day needs 30 rounds a day or more, got 24"),
        (["--devices", "10", "--asked", "11"], "asked must be in 1 .. 10 (devices), got 11"),
        (["--learner", "PDDG()"], "PDGD"),
        (["--learner", "ES()", "--channel", "SecureSum()"], "leave --channel out"),
        (["--poll", "nan"], "--poll must be a number"),
        (["--rounds-per-day", "inf"], "--rounds-per-day must be a number"),
        (["--times-per-day", "inf"], "--times-per-day must be a number"),
        (["--price-gb-egress", "inf"], "--price-gb-egress must be a number"),
        (["--channel", "SecureSum(consistency=True)"], "every device masks with every other"),
        (["--features", "0"], "--features must be in 1 .. 10^6, got 0"),
        (["--searches", "0"], "--searches must be >= 1, got 0"),
        (["--gateways", "0"], "--gateways must be >= 1, got 0"),
        (["--price-core-hour", "-1"], "--price-core-hour must be >= 0, got -1.0"),
        (["--memory-gb", "0"], "--memory-gb must be > 0, got 0"),
        (["--connected", "2"], "0 .. 1, got 2"),
    ],
)
def test_bad_input_is_refused_in_one_line(words, told):
    done = run.invoke(app, ["plan", *words])
    assert done.exit_code == 2
    assert told in done.output
    assert len(done.output.strip().splitlines()) == 1
