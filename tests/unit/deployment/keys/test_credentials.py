"""Keys and certificates from files."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from foltr.core.errors import Mistake
from foltr.deployment.keys import device_keys as credentials

PEM, PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()
SSH = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH


def test_files_that_are_no_keys(tmp_path):
    file = tmp_path / "key"
    file.write_text("hello")
    with pytest.raises(Mistake, match="no certificates"):
        credentials.trusting(file)
    with pytest.raises(Mistake, match="No such file"):
        credentials.trusting(tmp_path / "none")
    other = ed25519.Ed25519PrivateKey.generate()
    with pytest.raises(Mistake, match="ECDSA"):
        credentials.public_pem(other.public_key().public_bytes(*SSH))


def test_a_public_key_is_the_same_in_both_forms():
    public = credentials.new_key().public_key()
    pem = credentials.public_bytes(public)
    assert credentials.public_pem(pem) == pem
    assert credentials.public_pem(public.public_bytes(*SSH)) == pem
    with pytest.raises(Mistake, match="no public key"):
        credentials.public_pem(b"hello")
