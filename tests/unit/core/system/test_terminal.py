"""Sparklines and durations."""

from foltr.core.system.terminal import duration, sparkline


def test_sparklines_and_durations():
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert (
        sparkline([0.3, 0.3]) == "▁▁" and sparkline([]) == "" and sparkline([float("nan")]) == ""
    )
    assert len(sparkline(list(range(1000)), width=40)) == 40
    assert duration(59) == "0:59" and duration(3661) == "1:01:01"
