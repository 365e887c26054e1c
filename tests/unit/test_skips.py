"""A skip that is not on the list fails the session; one that is has a closing line."""

from collections import Counter
from types import SimpleNamespace

import pytest

import skips


def config(without_deploy):
    return SimpleNamespace(getoption=lambda name: without_deploy)


def test_listed_skips_are_counted_with_the_way_to_run_them():
    counted = Counter({"no browser": 2, "no real data: MQ2008 is not there": 3})
    assert skips.unlisted(config(False), counted) == []
    assert skips.closing_lines(config(False), counted) == [
        f"skipped, no real data: 3 tests. To run them: {skips.ALLOWED['no real data']}",
        "skipped, no browser: 2 tests. To run them: apt install chromium",
    ]


@pytest.mark.parametrize(
    ("without_deploy", "wrong"), [(True, []), (False, ["needs foltr[deploy]"])]
)
def test_other_skips_fail(without_deploy, wrong):
    counted = Counter({"needs foltr[deploy]": 1, "no browser": 1})
    assert skips.unlisted(config(without_deploy), counted) == wrong
    lines = skips.closing_lines(config(without_deploy), counted)
    assert sum(line.startswith("FAILED: 1 skipped") for line in lines) == len(wrong)
