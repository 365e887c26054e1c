"""The component that a contract test is given."""

import pytest
from plain_things import plain


@pytest.fixture
def thing(request):
    cls, changes = request.param
    return plain(cls, **changes)
