"""The page in a browser: it draws, tells, copies, saves; by mouse, by keyboard, on a phone, in the
dark."""

import csv
import io
import shlex

import pytest
from learning_runs import KINDS, run_of
from made_runs import made_run, made_runs
from playwright.sync_api import expect

from foltr.report.curves import cell_curve
from foltr.report.provenance import command
from foltr.report.study import study

HOSTILE = (
    "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'> {{x}} \"' é"
)


def hover(tab, chart=1, x=150, y=100):
    tab.locator(f"figure.chart:nth-child({chart})").scroll_into_view_if_needed()
    tab.hover(f"figure.chart:nth-child({chart}) .u-over", position={"x": x, "y": y})
    return tab.locator(f"figure.chart:nth-child({chart}) .tip")


def overflow(tab):
    return tab.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def test_a_chart_per_condition_with_a_line_per_method(opened):
    tab = opened()
    assert tab.locator("figure.chart").count() == 3 and tab.title() == "Clients"
    assert tab.locator("figure.chart figcaption").all_inner_texts() == [
        f"{kind}\nrounds" for kind in KINDS
    ]
    ranges = tab.evaluate(
        "charts.map(({ plot }) => [plot.scales.y.min, plot.scales.y.max, plot.series.length])"
    )
    # x, and one per method
    assert len({tuple(each) for each in ranges}) == 1 and ranges[0][2] == 4


def test_hover_shows_the_values_of_all_curves_there(opened, runs):
    tab = opened()
    tip = hover(tab)
    assert tip.is_visible() and tip.locator("tr").count() == 3
    t = int(tip.locator("p").first.inner_text().removeprefix("round "))
    found = study(runs)
    for row in tip.locator("tr").all():
        label, value = row.locator("td").all_inner_texts()
        method = [group.label for group in found.methods].index(label)
        exact = cell_curve(list(found.cell(method, 0).values()), "ndcg@10")
        at = exact.rounds.tolist().index(t)
        mean, sd = map(float, value.split(" ± "))
        assert mean == pytest.approx(exact.mean[at], abs=1e-4) and sd == pytest.approx(
            exact.sd[at], abs=1e-3
        )
    tab.mouse.move(5, 5)
    assert not tip.is_visible()


def test_the_keyboard_moves_along_the_curves(opened):
    tab = opened()
    chart = tab.locator("figure.chart").first
    chart.focus()
    tab.keyboard.press("Home")
    first = chart.locator(".tip p").first.inner_text()
    tab.keyboard.press("ArrowRight")
    assert (first, chart.locator(".tip p").first.inner_text()) == ("round 0", "round 2")
    tab.keyboard.press("Escape")
    assert not chart.locator(".tip").is_visible()


def test_chips_show_and_hide_methods(opened):
    tab = opened()
    chip = tab.locator("#method-picker .chip").nth(1)
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false" and hover(tab).locator("tr").count() == 2
    chip.focus()
    tab.keyboard.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true" and hover(tab).locator("tr").count() == 3
    chip.dblclick()
    assert hover(tab).locator("tr").all_inner_texts()[0].startswith(chip.inner_text())


def test_measures_are_tabs_by_keyboard(opened):
    tab = opened()
    tabs = tab.locator("#curve-tabs [role=tab]")
    assert tabs.all_inner_texts() == ["offline nDCG@10", "online nDCG@10", "online MaxRR"]
    assert [each.get_attribute("tabindex") for each in tabs.all()] == ["0", "-1", "-1"]
    tabs.first.focus()
    for key, chosen in (
        ("ArrowRight", 1),
        ("End", 2),
        ("ArrowRight", 0),
        ("ArrowLeft", 2),
        ("Home", 0),
        ("ArrowRight", 1),
    ):
        tab.keyboard.press(key)
        assert tabs.nth(chosen).get_attribute("aria-selected") == "true"
        assert tabs.nth(chosen).evaluate("tab => tab === document.activeElement")
    assert tab.evaluate("charts[0].plot.data[0].length") == 40  # every round


def test_smoothing_is_for_online_curves_and_stated(opened):
    tab = opened()
    assert not tab.locator("#smoothing").is_visible()
    tab.click("#curve-tabs [role=tab]:nth-child(2)")
    slider, shown = tab.locator("#smoothing input"), tab.locator("#smoothing output")
    slider.fill("0")
    rough = tab.evaluate("charts[0].plot.data[1]")
    assert shown.inner_text() == "none"
    slider.fill("2")
    smooth = tab.evaluate("charts[0].plot.data[1]")
    assert (
        shown.inner_text() == "10 rounds"
        and "smoothed over 10 rounds before averaging" in tab.inner_text("#curve-note")
    )

    def roughness(values):
        return sum(
            abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False)
        )

    assert roughness(smooth) < roughness(rough) / 3  # up to both ends


def test_axes_and_bands(opened):
    tab = opened()
    assert tab.evaluate("charts[0].plot.data[0][0]") == 0
    tab.check("input[value=log]", force=True)
    assert (
        tab.evaluate("charts[0].plot.scales.x.distr") == 3
        and tab.evaluate("charts[0].plot.data[0][0]") == 2
    )
    tab.check("input[value=interactions]", force=True)
    assert "interactions" in hover(tab, x=200).inner_text()
    assert tab.evaluate("charts[0].plot.data[0].at(-1)") == 40 * 4 * 1000
    tab.check("input[value=linear]", force=True)
    tab.check("input[value=none]", force=True)
    assert "±" not in hover(tab, x=30).inner_text()
    close = tab.evaluate("charts[0].plot.scales.y.min")
    tab.check("input[value=all]", force=True)
    assert tab.evaluate("charts[0].plot.scales.y.min") < close - 0.1


def test_tables_are_tabs_too_and_sort(opened):
    tab = opened()
    tabs = tab.locator("#matrix [role=tab]")
    assert tab.locator("#matrix .panel:visible").count() == 1
    tabs.first.focus()
    tab.keyboard.press("ArrowRight")
    panel = tab.locator("#matrix .panel:visible")
    assert (
        tabs.nth(1).get_attribute("aria-selected") == "true"
        and panel.get_attribute("id") == "panel-1"
    )
    head = panel.locator("thead th").nth(2)
    for order in ("descending", "ascending"):
        head.locator("button").click()
        shown = [
            float(v)
            for v in panel.locator("tbody tr td:nth-child(3)").evaluate_all(
                "all => all.map(td => td.dataset.v)"
            )
        ]
        assert head.get_attribute("aria-sort") == order and shown == sorted(
            shown, reverse=order == "descending"
        )
    head.locator("button").click()
    assert [row.get_attribute("data-m") for row in panel.locator("tbody tr").all()] == [
        "0",
        "1",
        "2",
    ]


def folds(gain=0.01):
    """Gains that differ from fold to fold and hardly from seed to seed."""
    return made_runs(
        made_run(
            0.5 + (gain * f + 0.0001 * s) * (c == 10), clients=c, data=f"MQ2008(fold={f})", seed=s
        )
        for c in (100, 10)
        for f in (1, 2, 3)
        for s in (1, 2, 3)
    )


def test_a_mark_that_folds_do_not_bear_out_is_hollow_and_says_so(opened):
    tab = opened(folds())
    cell = tab.locator('#panel-0 .cell[data-at="1.0"]')
    assert "△" in cell.inner_text() and "▲" not in cell.inner_text()
    cell.click()
    told = tab.inner_text("dialog[open]")
    for words in (
        "t (9 pairs)",
        "t (3 pairs)",
        "share its queries",
        "over runs, but not over data splits",
    ):
        assert words in told


def test_a_point_of_one_run_leaves_the_band_of_others(opened):
    runs = [
        made_run(seed=s, rounds=4, every=1, curve=lambda t, s=s: 0.1 * s + 0.01 * t)
        for s in (1, 2)
    ]
    runs[1].metrics.offline["ndcg@10"][2] = float("nan")
    tab = opened(made_runs(runs))
    for band in ("sd", "ci"):
        tab.check(f"input[value={band}]", force=True)
        half = tab.evaluate("charts[0].panel.lines[0].half")
        assert half[2] is None and all(half[i] > 0.05 for i in (0, 1, 3, 4))
        assert tab.evaluate("stretches(charts[0].panel.lines[0].half)") == [[0, 1], [3, 4]]


def test_thinned_curves_say_so(opened):
    tab = opened(
        made_runs([made_run(seed=s, rounds=3000, curve=lambda t: t / 3000) for s in (1, 2)])
    )
    assert "drawn at" not in tab.inner_text("#curve-note")  # 301 points are all there
    tab.click("#curve-tabs [role=tab]:nth-child(2)")
    points = tab.evaluate("charts[0].plot.data[0].length")
    assert f"drawn at {points} of 3,000 rounds" in tab.inner_text("#curve-note") and points < 600


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_a_cell_opens_to_its_evidence(opened, runs, key):
    tab = opened()
    cell = tab.locator('#panel-0 .cell[data-at="1.0"]')
    cell.focus()
    tab.keyboard.press(key)
    dialog = tab.locator("dialog[open]")
    told = dialog.inner_text()
    for word in (
        "Against clients=100",
        "mean difference",
        "p, two-tailed",
        "Bonferroni",
        "Cohen",
        "clients",
    ):
        assert word in told
    shown = dialog.locator(".commands code").all_inner_texts()
    found = study(runs)
    assert shown == [command(run) for run in found.cell(1, 0).values()]
    assert dialog.locator(".plain td").all_inner_texts() == ["clients", "100", "10"]
    assert dialog.locator(".strip circle").count() == 10
    tab.keyboard.press("Escape")
    assert tab.locator("dialog[open]").count() == 0 and cell.evaluate(
        "cell => cell === document.activeElement"
    )


def test_a_refused_comparison_says_why(opened):
    tab = opened()
    assert "not tested: not paired" in tab.inner_text("#panel-0 .refusals")
    tab.click('#panel-0 .cell[data-at="2.0"]')
    assert "lacks seed=3" in tab.inner_text("dialog .refused")


def test_copy_puts_the_command_on_the_clipboard(opened, runs):
    tab = opened()
    tab.click('#panel-0 .cell[data-at="1.1"]')
    tab.locator("dialog .commands button").nth(2).click()
    expect(tab.locator("dialog .commands button").nth(2)).to_have_text("Copied")
    expected = [command(run) for run in study(runs).cell(1, 1).values()]
    assert tab.evaluate("navigator.clipboard.readText()") == expected[2]
    tab.click("dialog .d-row button")
    expect(tab.locator("dialog .d-row button")).to_have_text("Copied")
    assert tab.evaluate("navigator.clipboard.readText()") == "\n".join(expected)


def test_copy_without_a_clipboard_to_write_to(opened, runs):
    tab = opened()
    tab.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    tab.evaluate(
        "document.addEventListener('copy', () => { window.copied ="
        " document.activeElement.value; })"
    )
    tab.click('#panel-0 .cell[data-at="1.1"]')
    tab.locator("dialog .commands button").first.click()
    expect(tab.locator("dialog .commands button").first).to_have_text("Copied")
    assert tab.evaluate("window.copied") == command(next(iter(study(runs).cell(1, 1).values())))
    assert tab.locator("dialog textarea").count() == 0


def test_downloads(opened, runs, tmp_path):
    tab = opened()
    texts = {}
    for name in ("runs.csv", "matrices.csv", "tables.tex"):
        with tab.expect_download() as waiting:
            tab.click(f'[data-file="{name}"]')
        waiting.value.save_as(tmp_path / name)
        assert waiting.value.suggested_filename == name
        texts[name] = (tmp_path / name).read_text(encoding="utf-8")
    assert texts["runs.csv"] == runs.table.csv()
    rows = list(csv.DictReader(io.StringIO(texts["matrices.csv"])))
    assert len(rows) == 3 * 9 and {row["measure"] for row in rows} == {
        "ndcg@10",
        "mrr@10",
        "online",
    }
    assert texts["tables.tex"].count(r"\toprule") == 3
    with tab.expect_download() as waiting:
        tab.click("#save-charts")
    waiting.value.save_as(tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG") and (
        tmp_path / "c.png"
    ).stat().st_size > 20_000


@pytest.mark.parametrize("preferred", ["light", "dark"])
def test_the_theme_follows_the_system_until_it_is_toggled(opened, preferred):
    tab = opened(color_scheme=preferred)
    ground = "getComputedStyle(document.body).backgroundColor"
    colours = {"light": "rgb(248, 247, 244)", "dark": "rgb(15, 18, 22)"}
    other = {"light": "dark", "dark": "light"}[preferred]
    assert tab.evaluate(ground) == colours[preferred]
    tab.click("#theme")
    assert tab.evaluate(ground) == colours[other]
    assert tab.get_attribute("#theme", "aria-pressed") == str(other == "dark").lower()


@pytest.mark.parametrize("width", [360, 390, 768])
def test_nothing_is_wider_than_a_phone(opened, width):
    tab = opened(viewport={"width": width, "height": 740})
    assert overflow(tab) == 0
    tip = hover(tab, x=100)
    box = tip.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width and overflow(tab) == 0
    tab.locator('#panel-0 .cell[data-at="1.0"]').click()
    box = tab.locator("dialog").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width and overflow(tab) == 0


def test_hostile_words_do_nothing(opened):
    runs = [
        made_run(
            0.5 + 0.1 * m + 0.01 * s, method=f"{HOSTILE}{m}", clients=1 + m, seed=s, users=HOSTILE
        )
        for m in range(3)
        for s in range(3)
    ]
    runs[0].final["notes"] = [HOSTILE]
    tab = opened(made_runs(runs, title=HOSTILE))
    assert tab.title() == HOSTILE and tab.inner_text("h1") == HOSTILE
    assert HOSTILE in hover(tab).inner_text()
    tab.click('#panel-0 .cell[data-at="1.0"]')
    assert HOSTILE in tab.inner_text("#evidence-title")
    assert HOSTILE in shlex.split(tab.locator("dialog code").first.inner_text())
    tab.keyboard.press("Escape")
    tab.locator("thead .sort").first.click()
    assert HOSTILE in tab.inner_text("#notes")
    assert (
        tab.evaluate("window.hurt") is None
        and tab.locator("img").count() == 0
        and overflow(tab) == 0
    )


def test_without_scripts_the_comparison_is_complete(opened):
    tab = opened(ready="table.matrix", java_script_enabled=False)
    assert (
        tab.locator("#matrix .panel:visible").count() == 3
        and tab.locator("#matrix td:visible").count() == 27
    )
    assert tab.locator("text=A script draws the curves").is_visible()
    assert not tab.locator(".tabs:visible").count() and not tab.locator("#theme").is_visible()


def test_thirty_methods_can_be_distinguished_and_found(opened):
    runs = [run_of(c, "perfect", s) for c in range(1, 31) for s in (1, 2)]
    tab = opened(made_runs(runs))
    assert "of 30 shown" in tab.inner_text("#method-picker .count")
    # the baseline
    assert tab.get_attribute('.chip[data-label="clients=1"]', "aria-pressed") == "true"
    tab.fill("#method-picker input", "clients=17")
    assert tab.locator("#method-picker .chip:visible").all_inner_texts() == ["clients=17"]
    tab.click("#method-picker .chip:visible")
    tab.click("#method-picker .text >> nth=0")
    assert tab.inner_text("#method-picker .count") == "30 of 30 shown"
    assert "and 14 more" in hover(tab).inner_text()
    looks = tab.evaluate("[...looks.values()].map(String)")
    assert len(set(looks)) == 30


def test_very_many_methods_have_their_other_tables_when_asked(opened):
    tab = opened(made_runs([made_run(0.5 + c / 10_000, clients=c) for c in range(1, 501)]))
    assert tab.locator("#panel-1 td").count() == 0
    tab.click("#tab-1")
    assert tab.locator("#panel-1 td").count() == 500
    tab.locator("#panel-1 .sort").click()
    assert tab.locator("#panel-1 tbody tr").first.get_attribute("data-m") == "499"


def test_methods_of_other_lengths_share_an_axis(opened):
    runs = [
        made_run(0.5, clients=c, rounds=r, seed=s, curve=lambda t: t / 100)
        for c, r in ((10, 40), (100, 8))
        for s in (1, 2)
    ]
    tab = opened(made_runs(runs))
    xs, long, short = tab.evaluate("charts[0].plot.data.map((part) => [...part])")
    assert xs == [0, 8, 10, 20, 30, 40] and short == [
        0,
        pytest.approx(0.08, abs=1e-4),
        None,
        None,
        None,
        None,
    ]
    assert long == pytest.approx([x / 100 for x in xs], abs=1e-4)


def test_one_run_of_one_round(opened):
    tab = opened(made_runs([made_run(None, rounds=1, every=1)]))
    assert (
        "a single run has no band" in tab.inner_text("#curve-note")
        and tab.locator("figure.chart").count() == 1
    )


def test_printing_is_on_white_with_all_tables(opened):
    tab = opened(color_scheme="dark")
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate("document.documentElement.dataset.theme") == "light"
    assert (
        tab.locator("#matrix .panel:visible").count() == 3
        and not tab.locator(".controls").is_visible()
    )
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate("document.documentElement.dataset.theme ?? null") is None


def test_focus_can_be_seen_on_all_that_tab_reaches(opened):
    tab = opened()
    reached = []
    for _ in range(100):
        tab.keyboard.press("Tab")
        tag, style, width = tab.evaluate("""() => {
            const at = document.activeElement;
            const seen = at.matches("fieldset input") ? at.nextElementSibling : at;
            const { outlineStyle, outlineWidth } = getComputedStyle(seen);
            return [at.tagName, outlineStyle, outlineWidth];
        }""")
        if tag == "BODY":
            break  # all round
        reached.append(tag)
        assert style != "none" and width != "0px", tag
    assert tag == "BODY" and {"A", "BUTTON", "INPUT", "FIGURE", "SUMMARY", "DIV"} <= set(reached)
