"""The page of the documentation has the features as they are."""

import re
from pathlib import Path

from foltr.device.searching import ABOUT, NAMES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "device.md").read_text()


def test_the_page_lists_the_features():
    section = PAGE.split("## Features")[1]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert dict(rows) == ABOUT
    assert f"by a linear function of {len(NAMES)} [features]" in PAGE
