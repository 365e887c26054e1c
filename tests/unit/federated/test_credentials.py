"""Keys and certificates from files."""

import pytest

pytest.importorskip("cryptography", reason="missing: pip install 'foltr[deploy]'")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from foltr.errors import Mistake
from foltr.federated import credentials

PEM, PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()
SSH = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH


@pytest.mark.parametrize("kind", ["OpenSSH", "PKCS8"])
def test_a_private_key(tmp_path, kind):
    key = credentials.new_key()
    file = tmp_path / "key"
    file.write_bytes(key.private_bytes(PEM, getattr(serialization.PrivateFormat, kind), PLAIN))
    file.chmod(0o644)
    with pytest.raises(Mistake, match="chmod 600"):
        credentials.private_key(file)
    file.chmod(0o600)
    assert credentials.private_key(file).private_numbers() == key.private_numbers()


def test_files_that_are_no_keys(tmp_path):
    with pytest.raises(Mistake, match="No such file"):
        credentials.private_key(tmp_path / "none")
    file = tmp_path / "key"
    file.write_text("hello")
    file.chmod(0o600)
    with pytest.raises(Mistake, match="no private key"):
        credentials.private_key(file)
    with pytest.raises(Mistake, match="no certificates"):
        credentials.trusting(file)
    with pytest.raises(Mistake, match="No such file"):
        credentials.trusting(tmp_path / "none")
    other = ed25519.Ed25519PrivateKey.generate()
    file.write_bytes(other.private_bytes(PEM, serialization.PrivateFormat.OpenSSH, PLAIN))
    with pytest.raises(Mistake, match="ECDSA"):
        credentials.private_key(file)
    with pytest.raises(Mistake, match="ECDSA"):
        credentials.public_pem(other.public_key().public_bytes(*SSH))


def test_a_public_key_is_the_same_in_both_forms():
    public = credentials.new_key().public_key()
    pem = credentials.public_bytes(public)
    assert credentials.public_pem(pem) == pem
    assert credentials.public_pem(public.public_bytes(*SSH)) == pem
    with pytest.raises(Mistake, match="no public key"):
        credentials.public_pem(b"hello")
