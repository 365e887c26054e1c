"""What devices sign, and their tokens."""

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from foltr.deployment.gateway.signing import (
    CLIENT,
    SIGNATURE,
    SIGNED,
    TIME,
    TOKEN_SECONDS,
    Tokens,
    answer_text,
    decoded,
    key_text,
    public_key,
    request_text,
    signed_headers,
    verified,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
FEDERATION = b"f" * 16
NOW = 1_700_000_000.0
REQUEST = (FEDERATION, 7, "/v1/forget", 1_700_000_000_123, b"body")
OTHERS = (b"g" * 16, 8, "/v1/leave", 1_700_000_000_124, b"bodz")


def test_a_signed_request_is_of_one_federation_client_path_time_and_body():
    key, text = KEY.public_key(), request_text(*REQUEST)
    signature = KEY.sign(text)
    assert verified(key, signature, text)
    for i, other in enumerate(OTHERS):
        changed = [*REQUEST[:i], other, *REQUEST[i + 1 :]]
        assert not verified(key, signature, request_text(*changed))
    assert not verified(Ed25519PrivateKey.generate().public_key(), signature, text)
    assert not verified(key, bytes(64), text)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_what_is_signed_for_one_purpose_is_not_for_another(one, other):
    """The texts of requests, answers and keys differ, whatever they are about."""
    frame, key = answer_text(one), key_text(FEDERATION, other)
    asked = request_text(FEDERATION, 7, "/v1/leave", 5, one)
    assert len({frame, key, asked}) == 3
    assert not any(a.startswith(b) for a in (frame, key) for b in (asked,))
    beginnings = {text[: text.index(b" 1")] for text in (frame, key, asked)}
    assert beginnings == {b"foltr answer", b"foltr key", b"foltr request"}


@given(st.text(max_size=20), st.binary(max_size=40), st.text(max_size=20), st.binary(max_size=40))
def test_path_and_body_cannot_be_exchanged(path, body, other, others):
    one = request_text(FEDERATION, 7, path, 5, body)
    two = request_text(FEDERATION, 7, other, 5, others)
    assert (one == two) == (path == other and body == others)


def test_headers_of_a_signed_request():
    headers = signed_headers(KEY, *REQUEST)
    assert headers[CLIENT] == "7" and headers[TIME] == "1700000000123"
    signature = decoded(headers[SIGNED], SIGNATURE)
    assert verified(KEY.public_key(), signature, request_text(*REQUEST))


@pytest.mark.parametrize("raw", [b"", bytes(31), bytes(33)])
def test_a_public_key_has_32_bytes(raw):
    with pytest.raises(ValueError, match="32 bytes"):
        public_key(raw)


@pytest.mark.parametrize(
    "text", [None, 7, [], "", "é", "====", "AAA", b64encode(bytes(31)).decode(), "A" * 10**6]
)
def test_other_values_are_no_bytes_in_base64(text):
    with pytest.raises(ValueError):
        decoded(text, 32)


@given(st.binary(min_size=32, max_size=32))
def test_bytes_go_there_and_back(raw):
    text = b64encode(raw)
    assert decoded(text, 32) == decoded(text.decode(), 32) == raw
    with pytest.raises(ValueError):
        decoded(text, 33)


@given(st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32))
def test_a_token_names_its_client_until_it_expires(client, secret):
    tokens = Tokens(secret)
    token = tokens.token(client, NOW).encode()
    assert tokens.client(token, NOW) == client
    assert tokens.client(token, NOW + TOKEN_SECONDS) == client
    assert tokens.client(token, NOW + TOKEN_SECONDS + 1) is None
    assert Tokens(bytes(32 - 1) + b"x").client(token, NOW) is None


@given(st.integers(0, 55), st.integers(1, 255))
def test_a_token_that_was_changed_is_none(at, change):
    tokens = Tokens(b"s" * 32)
    text = bytearray(tokens.token(7, NOW).encode())
    text[at] ^= change
    found = tokens.client(bytes(text), NOW)
    assert found is None or bytes(text).lower() == tokens.token(7, NOW).encode()  # hex, A as a


@given(st.binary(max_size=80))
def test_other_bytes_are_no_token(text):
    assert Tokens(b"s" * 32).client(text, NOW) is None
    assert Tokens(b"s" * 32).client(text.hex().encode(), NOW) is None
