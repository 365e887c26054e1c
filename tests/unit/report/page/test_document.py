"""The page as a file: whole, offline, escaped, readable, small."""

import gzip
import json
import math
import re
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_runs import KINDS, grid, luck, made_run, made_runs

from foltr.core.errors import Mistake
from foltr.core.system.files import write_whole
from foltr.core.system.web import asset
from foltr.report.page.content import page_content
from foltr.report.page.document import PLAIN_TABLES, page
from foltr.report.results import Runs, Skipped
from foltr.report.study import study

MADE = datetime(2026, 1, 2, tzinfo=UTC)
HOSTILE = [
    "</script><script>window.hurt = 1</script>",
    "<img src=x onerror='window.hurt = 1'>",
    '"><svg onload="window.hurt = 1">',
    "{{script}} & &amp; ' \" ` ${window.hurt = 1} é ☃ \U0001d6fc \u2028 <!--",
]


class Read(HTMLParser):
    """All tags with their attributes, and the text within each kind of tag."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.within, self.inside = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in set(self.inside):
            self.within.setdefault(tag, []).append(data)


def data_of(text):
    found = re.search(r'id="data">([A-Za-z0-9+/=]+)</script>', text)
    return json.loads(gzip.decompress(b64decode(found[1])))


def test_one_file_that_asks_for_nothing():
    text = page(study(made_runs(grid())), MADE)
    for tag, attributes in Read(text).tags:
        assert tag not in ("iframe", "object", "embed", "base", "form", "audio", "video", "img")
        for name in ("src", "href", "action", "srcset", "data", "poster", "style"):
            assert attributes.get(name, "#").startswith(("#", "data:,")), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in text and "url(" not in text


def test_the_policy_allows_what_is_there_and_nothing_else():
    text = page(study(made_runs(grid())), MADE)
    policy = next(
        a["content"]
        for tag, a in Read(text).tags
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    (script,), (style,) = (
        re.findall(r"<script>(.*?)</script>", text, re.S),
        re.findall(r"<style>(.*?)</style>", text, re.S),
    )
    for name, content in (("script", script), ("style", style)):
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}';" in policy
    assert (
        policy.startswith("default-src 'none';")
        and "connect-src 'none'" in policy
        and "unsafe" not in policy
    )


def test_licences_stay_inside():
    text = unescape(page(study(made_runs([made_run()])), MADE))
    assert asset("uplot.LICENSE") in text and "Copyright (c) 2022 Leon Sorokin" in text
    assert "https://github.com/leeoniya/uPlot (v1.6.32)" in text


def test_the_comparison_is_there_without_a_script():
    found = study(made_runs(grid(), title="Of clients"))
    text, told = page(found, MADE), page_content(found, MADE)
    words = "".join(Read(text).within["main"])
    for each in told["matrices"]:
        assert each["caption"] in words
        for entry in each["entries"].values():
            assert (
                f"{entry['mean']:.{each['decimals']}f}" in words
                and f"± {entry['sd']:.{each['decimals']}f}" in words
            )
    assert "Of clients" in Read(text).within["h1"] and "baseline" in Read(text).within["em"]
    # the key below each table
    assert words.count("▲") + words.count("▼") >= len(told["matrices"]) * 2
    assert text.count("<button class=cell") == sum(
        len(each["entries"]) for each in told["matrices"]
    )


def test_what_was_not_tested_is_marked_with_its_reason():
    runs = [made_run(0.5, seed=s) for s in (1, 2)] + [
        made_run(0.6, seed=s, clients=10) for s in (1, 3)
    ]
    text = page(study(made_runs(runs)), MADE)
    # measures
    assert (
        text.count("<sup>a</sup></button>")
        == text.count("<li><sup>a</sup> not tested: not paired:")
        == 2
    )


def test_the_best_of_each_condition_is_bold():
    runs = [
        made_run(0.2 + 0.1 * (c == 10) + 0.01 * luck(c, s), clients=c, seed=s)
        for c in (100, 10)
        for s in (1, 2, 3)
    ]
    text = page(study(made_runs(runs)), MADE)
    rows = re.findall(r"<tr data-m=(\d)>(.*?)</tr>", text)
    assert [
        ("<button class=cell data-at=1.0 aria-haspopup=dialog><b>" in row) for _, row in rows
    ] == [False, True] * 2


def test_one_method_is_not_the_best_of_anything():
    text = page(study(made_runs(grid(clients=(100,)))), MADE)
    assert (
        "aria-haspopup=dialog><b>" not in text
        and "Highest mean" not in text
        and "<b>bold</b>" not in text
    )


def test_cards_say_in_words_whether_a_difference_is_significant():
    def cards(gain, spread, folds=(1,)):
        runs = [
            made_run(
                0.2 + (gain * f + spread * luck(c, s)) * (c == 10),
                clients=c,
                seed=s,
                data=f"MQ2008(fold={f})",
            )
            for c in (100, 10)
            for s in (1, 2, 3)
            for f in folds
        ]
        return page(study(made_runs(runs)), MADE)

    assert "Highest mean in each condition" in cards(
        0.1, 0.001
    ) and "± is one standard deviation" in cards(0.1, 0.001)
    assert "against the baseline, significant <span class=up" in cards(0.1, 0.001)
    assert "against the baseline, not significant</p>" in cards(0.1, 0.05)
    assert "against the baseline, significant over runs, but not over data splits" in cards(
        0.01, 0.0001, (1, 2, 3)
    )
    assert ">△</span> significantly better over runs" in cards(0.01, 0.0001, (1, 2, 3))


def test_an_odd_number_of_runs_is_shown_in_its_cell():
    text = page(study(made_runs(grid()[:-1])), MADE)
    # measures
    assert (
        text.count("<small>n=2</small>") == 2
        and "n the number of runs, where most cells have another" in text
    )


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_are_only_words(word):
    runs = [
        made_run(0.5, method=word, seed=1, users=word),
        made_run(0.6, method="plain", clients=7, seed=1, users=word),
    ]
    runs[0].final["notes"] = [word]
    runs[0].environment["processor"] = word
    all_of_them = Runs(tuple(runs), skipped=(Skipped(Path(word), word),), title=word)
    text = page(study(all_of_them), MADE)
    plain = page(study(made_runs([made_run(0.5), made_run(0.6, clients=7)])), MADE)
    read = Read(text)
    assert {tag for tag, _ in read.tags} <= {tag for tag, _ in Read(plain).tags} | {
        "article",
        "em",
    }
    assert sum(tag == "script" for tag, _ in read.tags) == 2 and not any(
        tag == "img" for tag, _ in read.tags
    )
    assert word in read.within["h1"] and word in read.within["td"]
    assert data_of(text)["methods"][0]["label"].startswith(word) and data_of(text)["title"] == word


def test_names_that_are_no_text_do_not_stop_it(tmp_path):
    runs = Runs((made_run(),), skipped=(Skipped(Path("caf\udce9"), "broken"),))
    write_whole(tmp_path / "r.html", page(study(runs)))
    assert "caf\\udce9" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_same_study_same_page():
    assert page(study(made_runs(grid())), MADE) == page(study(made_runs(grid())), MADE)


def wavy(seed):
    """A learning curve with noise that packs badly."""
    values = [0.6 - 0.4 * math.exp(-t / 30) + 0.03 * luck(seed, t) for t in range(1001)]
    return values.__getitem__


def test_three_hundred_runs_stay_small():
    groups = [(c, k, s) for c in (1, 10, 100, 1000) for k in KINDS for s in range(25)]
    curves = {s: wavy(s) for s in range(25)}
    runs = made_runs(
        made_run(
            0.5 + 0.01 * luck(c, k, s),
            clients=c,
            users=f"Cascade(kind='{k}')",
            seed=s,
            rounds=1000,
            curve=curves[s],
        )
        for c, k, s in groups
    )
    assert len(page(study(runs), MADE).encode()) < 500_000
    apart = study(runs, pairs=())
    assert len(apart.cells) == 300 and len(page(apart, MADE).encode()) < 500_000


def test_of_very_many_methods_one_table_is_spelt_out():
    found = study(made_runs([made_run(0.5 + c / 10_000, clients=c) for c in range(1, 501)]))
    text = page(found, MADE)
    assert len(text.encode()) < 500_000
    assert text.count("<button class=cell") == 500 and text.count("data-packed>") == 1
    assert [panel.count("<button class=cell") for panel in data_of(text)["panels"]] == [500, 500]
    assert sum(map(len, data_of(text)["panels"])) > PLAIN_TABLES


def test_a_report_of_no_run_or_of_an_unknown_baseline():
    with pytest.raises(Mistake, match="there is no finished run to report"):
        study(made_runs([]))
    with pytest.raises(Mistake, match="no method is called 'x'"):
        study(made_runs([made_run()]), baseline="x")


# ---- colours, by numbers (WCAG 2.2: 1.4.3 text 4.5 : 1, 1.4.11 lines 3 : 1)


def themes():
    blocks = re.findall(r"(:root[^{]*)\{([^{}]*)\}", asset("page.css"))
    return {
        name.strip(): dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", body)) for name, body in blocks
    }


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_dark_is_the_same_chosen_or_preferred():
    assert (
        themes()[':root[data-theme="dark"]'] == themes()[':root:not([data-theme="light"])']
        and len(themes()) == 3
    )


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_contrast(theme):
    colours = themes()[theme]
    for ground in ("bg", "card", "wash"):
        for ink in ("ink", "muted", "accent", "up", "down", "bad"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for i in range(8):
        assert (
            contrast(colours[f"c{i}"], colours["card"])
            >= 3.0
            <= contrast(colours[f"c{i}"], colours["bg"])
        ), i
    assert contrast(colours["faint"], colours["card"]) >= 3.0


def mixed(colour, ground, part):
    """color-mix(in srgb, colour part%, ground)"""
    parts = [
        (int(a[i : i + 2], 16), int(b[i : i + 2], 16))
        for i in (1, 3, 5)
        for a, b in [(colour, ground)]
    ]
    return "#" + "".join(f"{round(part * one + (1 - part) * other):02x}" for one, other in parts)


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_contrast_of_shades(theme):
    colours = themes()[theme]
    shades = re.findall(
        r"\.h(\d) \{ background: color-mix\(in srgb, var\(--down\) (\d+)%, var\(--card\)\)",
        asset("page.css"),
    )
    assert [int(number) for number, _ in shades] == [1, 2, 3, 4]
    grounds = [mixed(colours["down"], colours["card"], int(part) / 100) for _, part in shades]
    for ground in grounds:
        assert contrast(colours["ink"], ground) >= 4.5
    light = [luminance(ground) for ground in (colours["card"], *grounds)]
    # each is further from the paper than the one before
    assert light == sorted(light, reverse=theme == ":root")


def test_hostile_words_of_grids_are_only_words():
    word = HOSTILE[1]
    runs = [
        made_run(0.5, aggregator=rule, attack=word, malicious=m)
        for rule in ("Mean()", word)
        for m in (1, 2)
    ]
    text = page(study(made_runs(runs)), MADE)
    read = Read(text)
    assert (
        not any(tag == "img" for tag, _ in read.tags)
        and sum(tag == "script" for tag, _ in read.tags) == 2
    )
    assert any(word in said.replace("(<wbr>", "(") for said in read.within["th"])
