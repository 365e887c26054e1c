"""Tables for notebooks: rounded, escaped, and small."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.core.system.tables import LENGTH, Tidy, html_table, paragraphs, rounded


class Cells(HTMLParser):
    """The texts of a table's cells, row by row, and every tag that was met."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tags, self.inside = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.inside = tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])
        elif self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def test_measured_numbers_have_four_decimals_and_settings_are_as_they_were_written():
    html = html_table({"lr": [0.1, 0.01], "ndcg@10": [0.53290140, 0.5], "seed": [1, 20_000]})
    assert Cells(html).rows == [
        ["lr", "ndcg@10", "seed"],
        ["0.1", "0.5329", "1"],
        ["0.01", "0.5000", "20000"],
    ]
    assert Cells(html_table({"mrr@10": [1.0]}, ["mrr@10"])).rows[1] == ["1.0000"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0000"),
        (0.53290140, "0.5329"),
        (1e-5, "1e-05"),
        (-12345.678, "-12,345.7"),
        (3, "3"),
        (float("nan"), "nan"),
        (1.5e12, "1.5e+12"),
    ],
)
def test_a_number_for_a_reader(number, text):
    assert rounded(number) == text


def test_a_table_is_small_and_says_what_it_leaves_out():
    html = Tidy({"round": list(range(1234))})._repr_html_()
    assert len(Cells(html).rows) == 1 + 10 and "... and 1,224 more rows" in html
    assert "more rows" not in Tidy({"round": [1]})._repr_html_()
    assert Cells(Tidy({})._repr_html_()).rows == [[]]
    assert len(html_table({"note": ["x" * 10_000]}).partition("title=")[0]) < 400


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.tuples(st.text())


@given(st.dictionaries(st.text(), st.lists(values, min_size=3, max_size=3), max_size=4))
def test_nothing_in_a_table_becomes_a_tag(columns):
    found = Cells(html_table(columns))
    assert set(found.tags) <= {"table", "thead", "tbody", "tr", "th", "td"}
    assert all(len(cell) <= max(LENGTH, 25) for row in found.rows[1:] for cell in row)


def test_paragraphs_are_escaped():
    assert paragraphs(["a < b", "<script>"]) == "<p>a &lt; b</p><p>&lt;script&gt;</p>"
