"""Matrices as CSV, LaTeX and text: every number arrives, nothing breaks a table."""

import csv
import io
import math
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import KINDS, luck, made_run, made_runs

from foltr.report.captions import caption
from foltr.report.matrix import matrix
from foltr.report.study import study
from foltr.report.tables.csv_table import csv_table
from foltr.report.tables.latex_table import SPECIAL, escaped, latex_tables
from foltr.report.tables.screen_table import terminal_table

NASTY = (
    """\\\\ a_b & 50% $x$ #1 {a ~^ <b> "q" |x| [x] *y* a--b---c `k` \u03b1 ε λ Ω µ ± ≤ … ▲ é ü"""
)


def cascade(kind):
    return f"Cascade(kind={kind!r})"


def of(methods, conditions=KINDS, seeds=(1, 2, 3), title="", measure="ndcg@10", level=0.4):
    runs = [
        made_run(
            level * (1 + 0.1 * i + 0.02 * luck(i, k, s)),
            clients=i + 1,
            method=m,
            users=cascade(k),
            seed=s,
        )
        for i, m in enumerate(methods)
        for k in conditions
        for s in seeds
    ]
    return matrix(study(made_runs(runs, title)), measure)


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_every_number():
    both = [of(["A", "B", "C"], seeds=range(5), measure=each) for each in ("ndcg@10", "online")]
    found = rows(csv_table(*both))
    assert (
        len(found) == 18 and [row["measure"] for row in found] == ["ndcg@10"] * 9 + ["online"] * 9
    )
    for k, row in enumerate(found):
        m, i, j = both[k // 9], k % 9 // 3, k % 3
        entry = m.entries[i, j]
        assert (row["method"], row["condition"], row["baseline"]) == (
            "ABC"[i],
            KINDS[j],
            str(i == 0),
        )
        expected = [entry.n, entry.mean, entry.sd, *entry.interval]
        assert [float(row[name]) for name in ("n", "mean", "sd", "low", "high")] == expected
        assert (row["data"], row["empty"], row["selection"]) == (
            "MQ2008(fold=1)",
            "skip" if k < 9 else "",
            "",
        )
        names = (
            "pairs",
            "difference",
            "difference_sd",
            "t",
            "p",
            "effect_dz",
            "difference_low",
            "difference_high",
        )
        if i == 0:
            assert {row[name] for name in (*names, "p_bonferroni", "mark", "refused")} == {""}
        else:
            t = entry.test
            expected = [t.n, t.difference, t.sd, t.t, t.p, t.effect, *t.interval]
            assert [float(row[name]) for name in names] == expected
            assert (float(row["p_bonferroni"]), row["mark"]) == (entry.corrected, entry.mark)
        assert (row["family"], row["alpha"], row["paired_by"], row["best"]) == (
            "6",
            "0.05",
            "seed",
            str(entry.best),
        )


def test_csv_of_what_is_not_there():
    runs = [made_run(0.5, clients=1, users=cascade(k), seed=1) for k in KINDS] + [
        made_run(0.4, clients=2, users=cascade("perfect"))
    ]
    found = rows(csv_table(matrix(study(made_runs(runs)), "ndcg@10")))
    assert len(found) == 6
    absent = [row for row in found if row["n"] == "0"]
    assert len(absent) == 2 and {row["refused"] for row in absent} == {"no run has a value"}
    assert {row["mean"] for row in absent} == {""}
    assert {row["sd"] for row in found} == {""}  # of one run there is none, and no "nan" either
    assert found[3]["refused"] == "one pair only: a t-test needs two or more"


def test_csv_of_labels_with_commas_and_quotes():
    found = rows(csv_table(of(['a, "b"\nc', "d"])))
    assert found[0]["method"] == 'a, "b"\nc'


@pytest.mark.parametrize(
    "methods", [["A", "B"], ["a long name of a method, with " + "more " * 12, "B", "C" * 90]]
)
@pytest.mark.parametrize(
    "conditions", [KINDS, ["one"], [f"a condition that is called number {i}" for i in range(7)]]
)
def test_text_fits_a_terminal(methods, conditions):
    m = of(methods, conditions)
    text = terminal_table(m)
    assert max(map(len, text.splitlines())) <= 80
    squeezed = "".join(text.split())
    for entry in m.entries.values():
        assert f"{entry.mean:.3f}±{entry.sd:.3f}{entry.mark}" in squeezed
    for name in [
        *methods,
        *(c.label for c in m.study.conditions if len(conditions) > 1),
        caption(m),
    ]:
        assert all(word in text or "C" * 60 in word for word in name.split())


def test_text_marks_what_matters():
    text = terminal_table(of(["A", "B"], ["perfect"]))
    first, second = (line for line in text.splitlines() if line.startswith(("A (b)", "B ")))
    assert "▲" in second and "*" in second and "*" not in first
    assert "▲ significantly better" in text and "? not tested" not in text
    single = terminal_table(of(["A"], ["perfect"]))
    assert "*" not in single and "(b)" not in single


def test_no_significant_difference_is_said():
    runs = [
        made_run(0.5 + 0.01 * luck(c, s), clients=c, seed=s) for c in (1, 2) for s in (1, 2, 3)
    ]
    m = matrix(study(made_runs(runs)), "ndcg@10")
    for told in (terminal_table(m), latex_tables(m)):
        assert "none differs significantly from the baseline (b)" in " ".join(told.split())
        assert "significantly better" not in told


def test_text_says_why_something_was_not_tested():
    runs = [made_run(0.5, clients=c, seed=s) for c in (1, 2) for s in (1, 2, 3)][:-1]
    text = terminal_table(matrix(study(made_runs(runs)), "ndcg@10"))
    assert (
        "? clients=2, all runs: not paired: clients=2 lacks seed=3" in text
        and "0.500 ±0.000 n=2?" in text
    )


def test_text_of_much_that_was_not_tested():
    runs = [
        made_run(0.5, clients=c, seed=s) for c in range(12) for s in (1, 2, 3) if c == 0 or s < 3
    ]
    m = matrix(study(made_runs(runs)), "ndcg@10")
    text = terminal_table(m)
    assert text.count("lacks seed=3") == 6 and "? and 5 more: the CSV has every reason" in text
    assert csv_table(m).count("lacks seed=3") == latex_tables(m).count("% not tested: ") == 11


@pytest.mark.parametrize(
    ("level", "shown"),
    [(0.04, "0.0400"), (0.4, "0.400"), (4.0, "4.000"), (40.0, "40.00"), (4e4, "40000")],
)
def test_decimals(level, shown):
    runs = [made_run(level, seed=s) for s in (1, 2)]
    m = matrix(study(made_runs(runs)), "ndcg@10")
    assert (
        f"{level:.{m.decimals}f}" == shown
        and shown in terminal_table(m)
        and shown in latex_tables(m)
    )


def test_decimals_of_nothing():
    assert matrix(study(made_runs([made_run(0.0)])), "ndcg@10").decimals == 3


def balanced(text):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text.replace("\\\\", "")):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    return depth == 0


@given(st.text(max_size=40))
def test_labels_cannot_break_a_table(label):
    """What LaTeX would obey is escaped: without commands, groups and formulas nothing special is
    left."""
    text = escaped(label)
    plain = re.sub(r"\\[a-zA-Z]+\{\}|\$\\[a-zA-Z]+\$|\\[{}$&%#_]|\{[][*]\}|-\{\}(?=-)", "", text)
    assert not set(plain) & set('\\{}$&%#_~^<>|`[]*"\n\r\t') and "--" not in plain
    assert balanced(text)


@given(st.text("ab-\\{}$&%#_~^<>|`[]* \u2013…", max_size=30))
def test_labels_are_shown_as_they_stand(label):
    back = {shown: c for c, shown in SPECIAL.items()}
    pattern = (
        "|".join(re.escape(shown) for shown in sorted(back, key=len, reverse=True))
        + r"|-\{\}(?=-)"
    )
    assert re.sub(pattern, lambda found: back.get(found[0], "-"), escaped(label)) == " ".join(
        label.split()
    )


def test_latex_of_odd_studies():
    """One method; a cell without a run; what was not tested; several measures in one file."""
    assert r"\textbf" not in latex_tables(of(["A"]))
    runs = [made_run(0.5, clients=1, users=cascade(k), seed=s) for k in KINDS for s in (1, 2)]
    runs += [made_run(0.4, clients=2, users=cascade("perfect"), seed=s) for s in (1,)]
    m = matrix(study(made_runs(runs)), "ndcg@10")
    text = latex_tables(m, matrix(m.study, "online"))
    assert (
        text.count(r"\multicolumn{2}{c}{--}") == 4
        and r"0.400 & {\scriptsize n=1}$^{\circ}$ &" in text
    )
    assert (
        text.count(r"\begin{table}") == 2
        and r"\label{tab:ndcg-10}" in text
        and r"\label{tab:online}" in text
    )
    assert balanced(text)
    for line in text.splitlines():
        if line.endswith(r"\\") and not line.startswith(" &"):
            cells = re.sub(r"\\&", "", line).count("&") + line.count(r"\multicolumn{2}")
            assert cells == 6


def test_latex_names_its_title_and_caption():
    text = latex_tables(of(["A", "B"], title="Clients & batches"))
    assert (
        r"\caption{Clients \& batches: offline nDCG@10. Mean and standard deviation over 3 runs"
        in text
    )
    assert (
        r"corrected p \textless{} 0.05. Data: MQ2008(fold=1). Queries without a relevant document"
        r" are skipped. " in text
    )
    assert r"are skipped. Best mean in bold; $^{\blacktriangle}$ significantly better" in text


def hollow():
    """Gains of 1, 2, 3 points on three folds, the same for each of four seeds but for a
    thousandth."""
    return matrix(
        study(
            made_runs(
                made_run(
                    0.5 + (0.01 * f + 0.001 * (-1) ** s) * (c == 10),
                    clients=c,
                    data=f"MQ2008(fold={f})",
                    seed=s,
                )
                for c in (1, 10)
                for f in (1, 2, 3)
                for s in range(4)
            )
        ),
        "ndcg@10",
    )


def test_a_mark_that_folds_do_not_bear_out_is_hollow():
    m = hollow()
    assert r"$^{\vartriangle}$ \\" in latex_tables(m) and r"\blacktriangle" not in latex_tables(m)
    assert r"worse than the baseline (b) over runs, but not over data splits" in latex_tables(m)
    text = terminal_table(m)
    assert (
        "0.520 ±0.009△" in text
        and "△ significantly better, ▽ worse than the baseline (b)" in " ".join(text.split())
        and "▲" not in text
    )
    row = rows(csv_table(m))[1]
    test, again = m.entries[1, 0].test, m.entries[1, 0].over_data
    assert (row["mark"], row["pairs"], row["pairs_data"]) == ("△", "12", "3")
    assert [
        float(row[name])
        for name in ("p", "t_data", "p_data", "p_data_bonferroni", "difference_data")
    ] == [test.p, again.t, again.p, m.entries[1, 0].corrected_data, again.difference]
    assert [float(row[f"difference_data_{end}"]) for end in ("low", "high")] == list(
        again.interval
    )


def test_why_not_tested_in_a_caption():
    alone = matrix(study(made_runs(made_run(0.5, clients=c) for c in (1, 2))), "ndcg@10")
    assert r"$^{\circ}$ not tested, as there is one pair only." in latex_tables(alone)
    odd = [
        made_run(0.5, clients=c, seed=s, empty="skip" if c == 1 else "one")
        for c in (1, 2)
        for s in (1, 2)
    ]
    assert "not tested, as the runs were not measured alike." in latex_tables(
        matrix(study(made_runs(odd)), "ndcg@10")
    )


@pytest.mark.tools  # pdflatex
def test_latex_compiles(tmp_path):
    body = latex_tables(
        hollow(),
        of([NASTY, "[1] starts with a bracket", "*starred"], [*KINDS, NASTY], title=NASTY),
    )
    packages = r"\usepackage{booktabs}\usepackage{amssymb}"
    document = (
        f"\\documentclass{{article}}{packages}\n\\begin{{document}}\n{body}\\end{{document}}\n"
    )
    (tmp_path / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "table.pdf").stat().st_size > 1000


def test_infinite_and_undefined_numbers_of_a_test():
    """All differences equal: t is infinite, which CSV can hold."""
    runs = [made_run(v, clients=c, seed=s) for c, v in ((1, 0.5), (2, 0.75)) for s in (1, 2)]
    m = matrix(study(made_runs(runs)), "ndcg@10")
    row = rows(csv_table(m))[1]
    assert math.isinf(float(row["t"])) and row["p"] == "0.0" and row["mark"] == "▲"
    assert "nan" not in csv_table(m) and "inf" not in latex_tables(m)
