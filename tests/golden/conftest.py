import numpy as np
import pytest

from foltr.core.world.dataset import Dataset, padded


@pytest.fixture
def small_data():
    """Eight queries of 3 to 17 documents with five features and three grades."""
    rng = np.random.default_rng(0)
    lengths = np.arange(3, 18, 2)
    storage = np.zeros((lengths.sum(), padded(5)), np.float32)
    storage[:, :5] = rng.random((lengths.sum(), 5))
    labels = rng.integers(0, 3, (1, lengths.sum())).astype(np.int8)
    return Dataset(
        storage,
        5,
        labels,
        np.append(0, np.cumsum(lengths)),
        3,
        np.arange(8).astype("S"),
        content="small",
    )
