"""Words for what prevents a connection."""

from datetime import UTC, datetime, timedelta

import pytest

from foltr.deployment.flower import node as reasons

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HEADER = "Fri, 02 Jan 2026 03:04:05 GMT"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, None), (3, None), (-300, None), (10, "10 s ahead of"), (-400, "400 s behind")],
)
def test_a_wrong_clock(seconds, told):
    reason = reasons.of_clock(HEADER, NOW + timedelta(seconds=seconds))
    assert (reason is None) if told is None else (told in reason and "NTP" in reason)


@pytest.mark.parametrize("header", [None, "", "yesterday"])
def test_no_date_is_no_reason(header):
    assert reasons.of_clock(header, NOW) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired", "has expired"),
        ("[SSL] certificate verify failed: certificate is not yet valid", "not valid yet"),
        ("CERTIFICATE_VERIFY_FAILED: self-signed certificate in chain", "not signed by roots.pem"),
        ("certificate verify failed: unable to get local issuer certificate", "not signed by"),
        ("certificate: Hostname mismatch, certificate is not valid for 'x'", "another name than"),
        ("certificate verify failed: IP address mismatch", "another name than a:1"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "does not speak TLS"),
        ("[SSL] something new", "something new"),
    ],
)
def test_a_certificate(text, told):
    assert told in reasons.of_tls(text, "a:1", "roots.pem")


def test_other_errors_are_none_of_tls():
    assert reasons.of_tls("[Errno 111] Connection refused", "a:1", None) is None
