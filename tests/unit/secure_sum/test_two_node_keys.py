"""A node whose key is being replaced: either key signs, a third one does not."""

import pytest

from foltr.core.errors import Mistake
from foltr.secure_sum.keys import node_key, node_keys, sign, signed_by


def test_either_key_signs():
    (old, old_public), (new, new_public), (other, _) = (node_key() for _ in range(3))
    known = node_keys({4: old_public + new_public, 5: old_public})
    for private, both, one in ((old, True, True), (new, True, False), (other, False, False)):
        assert signed_by(known[4], sign(private, b"text"), b"text") == both
        assert signed_by(known[5], sign(private, b"text"), b"text") == one
    assert not signed_by(known[4], sign(new, b"other"), b"text")


@pytest.mark.parametrize("size", [0, 31, 33, 63])
def test_keys_of_another_size_are_refused(size):
    with pytest.raises(Mistake, match=f"has {size} bytes, expected 32"):
        node_keys({0: bytes(size)})
