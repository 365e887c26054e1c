import pytest

from foltr.core.compiled import using
from foltr.simulation.engines.twins import KERNELS


@pytest.fixture(autouse=True)
def kernels():
    """Kernels compute what they can, as in a run by the local engine."""
    with using(KERNELS):
        yield
