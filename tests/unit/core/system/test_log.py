"""Logs of processes: lines of text, or one JSON object a line, whatever the text is."""

import io
import json
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from foltr.core.system.files import strict_json
from foltr.core.system.log import Event, json_line, text_line, writer

NOON = datetime(2026, 11, 30, 12, 0, 31, 250_999, tzinfo=timezone(timedelta(hours=1)))
HOSTILE = 'a\nb\r\x1b[2J"\\ \u2028 \u202e \udcff \x00 {"level":"error"}'


def test_an_event_is_text_that_carries_more():
    event = Event("round 3", "round", "warning", round=3)
    assert event == "round 3" and f"{event}!" == "round 3!" and isinstance(event, str)
    assert (event.kind, event.level, event.fields) == ("round", "warning", {"round": 3})


def test_a_line_for_people():
    assert text_line(Event("round 3", "round", round=3), NOON) == "12:00:31 round 3"


def test_a_line_for_programs():
    line = json_line(Event("round 3", "round", round=3, failures={"late": 1}), "server", NOON)
    assert json.loads(line) == {
        "time": "2026-11-30T11:00:31.250Z",
        "level": "info",
        "process": "server",
        "event": "round",
        "text": "round 3",
        "round": 3,
        "failures": {"late": 1},
    }
    assert json.loads(json_line("plain", "node", NOON))["event"] == "note"


def test_hostile_text_stays_in_its_line_and_its_field():
    line = json_line(HOSTILE, "node", NOON)
    assert line.isascii() and line.isprintable() and "\n" not in line
    said = json.loads(line)
    assert said["text"] == HOSTILE and said["level"] == "info"


def test_fields_do_not_replace_what_every_line_has():
    said = json.loads(json_line(Event("t", "k", text="other", level="x", n=1), "server", NOON))
    assert (said["text"], said["level"], said["n"]) == ("t", "info", 1)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_everything_is_strict_json(value):
    def refused(word):
        raise AssertionError(word)

    line = strict_json({"value": value})
    assert line.isascii() and "\n" not in line
    json.loads(line, parse_constant=refused)


def test_nan_infinity_and_dates_in_json():
    assert strict_json({"a": float("nan"), "b": [float("inf")]}) == '{"a":null,"b":[null]}'
    assert strict_json({"a": datetime(2026, 1, 2, tzinfo=UTC)}) == (
        '{"a":"2026-01-02 00:00:00+00:00"}'
    )


def test_a_writer_writes_whole_lines():
    class Out(io.StringIO):
        writes = 0

        def write(self, text):
            self.writes += 1
            return super().write(text)

    for form, begin in (("text", "12:00:31 a"), ("json", '{"time":')):
        out = Out()
        writer(form, "node", out, lambda: NOON)("a")
        assert out.getvalue().startswith(begin) and out.getvalue().endswith("\n")
        assert out.writes == 1
