"""Keys and certificates from files."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from foltr.core.errors import Mistake
from foltr.deployment.keys.device_keys import trusting
from foltr.deployment.keys.keys import flower_key, new_key, public_line

PEM = serialization.Encoding.PEM
SSH = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH


def test_files_that_are_no_keys(tmp_path):
    file = tmp_path / "key"
    file.write_text("hello")
    with pytest.raises(Mistake, match="no certificates"):
        trusting(file)
    with pytest.raises(Mistake, match="No such file"):
        trusting(tmp_path / "none")
    other = ed25519.Ed25519PrivateKey.generate()
    with pytest.raises(Mistake, match="no public key of the kind ecdsa-sha2-nistp384"):
        flower_key(other.public_key().public_bytes(*SSH))


def test_a_public_key_is_the_same_in_both_forms():
    key = new_key()
    pem = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert flower_key(pem) == pem
    assert flower_key(public_line(key)) == pem
    with pytest.raises(Mistake, match="no public key"):
        flower_key(b"hello")
